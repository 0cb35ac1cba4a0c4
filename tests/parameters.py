#!/usr/bin/env python3
"""Fails on a function of more than 6 parameters: a struct is missing there.

    tests/parameters.py [ROOT [FOLDER...]]    checks the tree, or these folders of the tree
    tests/parameters.py --self-test           checks that such functions are found in made-up sources, and no others

CUDA kernels (__global__) count as functions too. Macros do not: their arguments are text.
"""
import pathlib
import re
import sys

MOST = 6
FOLDERS = ["src", "graph", "ops", "parallel"]
SUFFIXES = {".c", ".h", ".inc", ".cu", ".cuh"}

# Text that is no code: comments, string and character literals, directives with their continued lines.
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
SCOPE = re.compile(r"(?:extern|namespace\s*\w*|(?:typedef\s+|template\s*<[^{}]*>\s*)?(?:struct|union|class)\b[^()=]*)$")
NAME = re.compile(r"(\w+|\w+\s*\([^()]*\)|\(\s*\*?\s*\w+\s*\)|operator\s*\S+)\s*$")


def code_of(text):
    """The text with all that is no code blanked out; every line stays where it is."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return ATTRIBUTE.sub(blank, NO_CODE.sub(blank, text))


def opening(text, end):
    """The index of the parenthesis that the one at `end` closes, -1 where none does."""
    depth = 0
    for at in range(end, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return at
    return -1


def count_parameters(text):
    """The number of parameters in the text between the parentheses of a function."""
    depth, commas = 0, 0
    for letter in text:
        depth += (letter in "([{<") - (letter in ")]}>")
        commas += letter == "," and depth == 0
    return 0 if text.strip() in ("", "void") else commas + 1


def read_head(head):
    """(name, number of parameters) of the text before an opening brace, None where no function begins."""
    head = head.rstrip()
    start = opening(head, len(head) - 1) if head.endswith(")") else -1
    name = NAME.search(head[:start]) if start > 0 else None
    if not name or "=" in head[:start]:
        return None
    return re.sub(r"\s+", "", name.group(1)), count_parameters(head[start + 1:-1])


def functions_of(text):
    """[(line, name, number of parameters)] of the functions that the text defines."""
    code, found, begin, skipped = code_of(text), [], 0, 0
    scopes = 0  # open braces around functions: of extern "C", namespaces and structs
    for match in re.finditer(r"[{};]", code):
        mark, at = match.group(), match.start()
        if skipped:  # within a body or an initializer
            skipped += (mark == "{") - (mark == "}")
        elif mark == "{":
            head = code[begin:at]
            if SCOPE.match(head.strip()):
                scopes += 1
            else:
                skipped = 1
                function = read_head(head)
                if function:
                    found.append((code.count("\n", 0, at) + 1, *function))
        elif mark == "}" and scopes:
            scopes -= 1
        begin = at + 1
    return found


# (source, [(name, parameters) that is too many])
SOURCES = [
    ("int f(int a, int b, int c, int d, int e, int f) { return a; }", []),
    ("int f(int a, int b, int c, int d, int e, int f, int g) { return a; }", [("f", 7)]),
    ("static void *f(int a, int b,\n  int c, int d, int e,\n  const float *f, float g[2])\n{\n}", [("f", 7)]),
    ("void f(int a, void (*each)(int, int, int), int b, int c, int d, int e) { each(1, 2, 3); }", []),
    ("void f(int a, void (*each)(int, int, int), int b, int c, int d, int e, int g) { }", [("f", 7)]),
    ("void f(int, int, int, int, int, int, int);\nvoid (*g)(int, int, int, int, int, int, int);", []),
    ("void f(void) { g(1, 2, 3, 4, 5, 6, 7); if (h(1, 2, 3, 4, 5, 6, 7)) { return; } }", []),
    ("const struct row r = { .f = f, .n = M(1, 2, 3, 4, 5, 6, 7) };\nint x[] = { 1, 2, 3, 4, 5, 6, 7 };", []),
    ("/* int f(int a, int b, int c, int d, int e, int f, int g) { */ // {\nconst char *s = \"f(a, b, c, d, e, f, g) {\";", []),
    ("#define F(a, b, c, d, e, f, g) \\\n  { a, b }\nvoid f(void) { char c = '{'; }\nvoid g(int a, int b, int c, int d, int e, int f, int h) { }",
     [("g", 7)]),
    ("void FN(dot)(int a, int b, int c, int d, int e, int f, int g) { }", [("FN(dot)", 7)]),
    ("static inline __attribute__((target(\"avx2\"), always_inline)) void f(int a, int b, int c, int d, int e, int f, int g) { }", [("f", 7)]),
    ("void f(int a, int b, int c, int d, int e, int f, int g) __attribute__((noinline)) { }", [("f", 7)]),
    ("extern \"C\" {\n__global__ void __launch_bounds__(256) k(int a, int b, int c, int d, int e, int f, int g) { }\n}", [("k", 7)]),
    ("extern \"C\" __global__ void k(int a, int b, int c, int d, int e, int f, int g) { }", [("k", 7)]),
    ("template <class T, int N> struct s {\n  __device__ T operator()(int a, int b, int c, int d, int e, int f, int g) { } };", [("operator()", 7)]),
    ("template <class A, class B> void f(pair<A, B> a, pair<A, B> b, pair<A, B> c, pair<A, B> d) { }", []),
    ("struct s { int a; };\nstruct s f(int a, int b, int c, int d, int e, int f, int g) { }", [("f", 7)]),
    ("enum { A, B };\nunion u { int a; };\nvoid f(int a, int b, int c, int d, int e, int f, ...) { }", [("f", 7)]),
]


def too_many(text):
    return [row for row in functions_of(text) if row[2] > MOST]


def self_test():
    wrong = []
    for text, wanted in SOURCES:
        found = [(name, count) for _, name, count in too_many(text)]
        if found != wanted:
            wrong.append(f"{text!r}: wanted {wanted}, found {found}")
    print("\n".join(wrong + [f"{len(SOURCES) - len(wrong)} of {len(SOURCES)} sources judged rightly"]))
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    files = sorted(p for folder in sys.argv[2:] or FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    all_functions, found = 0, []
    for file in files:
        functions = functions_of(file.read_text(errors="replace"))
        all_functions += len(functions)
        found += [f"{file.relative_to(root)}:{line}: {name} has {count} parameters, at most {MOST} are allowed"
                  for line, name, count in functions if count > MOST]
    print("\n".join(found + [f"{all_functions} functions in {len(files)} files, {len(found)} of them with more than {MOST} parameters"]))
    return 1 if found or not all_functions else 0


if __name__ == "__main__":
    sys.exit(main())
