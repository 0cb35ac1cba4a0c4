# shellcheck shell=bash disable=SC2034
# Shared by tools/quickstart and tools/test: what the build needs, how to get it, one line a stage. Sourced by bash.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Debian package, and the command that succeeds where it (or its like from elsewhere) is installed. tools/quickstart
# needs the first table, tools/test both.
build_needs=(
    'gcc|gcc --version'
    'libc6-dev|has_header stdlib.h'
    'pkg-config|pkg-config --version'
    'meson|meson --version'
    'ninja-build|ninja --version'
    'protobuf-c-compiler|protoc-c --version'
    'libprotobuf-c-dev|pkg-config --exists libprotobuf-c'
    'libcjson-dev|pkg-config --exists libcjson'
    'libssl-dev|pkg-config --exists "libcrypto >= 3.0"'
    'libzip-dev|pkg-config --exists libzip'
    'libjpeg62-turbo-dev|pkg-config --exists libjpeg'
    'libpng-dev|pkg-config --exists libpng'
    'liburing-dev|pkg-config --exists liburing'
    'libdnnl-dev|has_header dnnl.h'
    'libopenmpi-dev|pkg-config --exists ompi-c'
    'openmpi-bin|mpirun --version'
)
test_needs=(
    'check|pkg-config --exists check'
    'python3-venv|python3 -c "import ensurepip, venv"'
    'clang|clang --version'
    'clang-format|clang-format --version'
    'libomp-dev|has_header omp.h clang'
    'valgrind|valgrind --version'
    'libasan8|gcc -print-file-name=libasan.so | grep -q /'
    'gnuplot-nox|gnuplot --version'
    'libclang-rt-14-dev|ls /usr/lib/llvm-*/lib/clang/*/lib/linux/*asan*'
)

aarch64_needs=( # of tools/test --full
    'gcc-aarch64-linux-gnu|aarch64-linux-gnu-gcc --version'
    'qemu-user|qemu-aarch64 --version'
    'libprotobuf-c-dev:arm64|has_arm64 libprotobuf-c'
    'libcjson-dev:arm64|has_arm64 libcjson'
    'libssl-dev:arm64|has_arm64 libcrypto'
    'libzip-dev:arm64|has_arm64 libzip'
    'libjpeg62-turbo-dev:arm64|has_arm64 libjpeg'
    'libpng-dev:arm64|has_arm64 libpng'
    'liburing-dev:arm64|has_arm64 liburing'
    'check:arm64|has_arm64 check'
)

has_arm64() { PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig pkg-config --exists "$1"; }

has_header() { echo "#include <$1>" | "${2:-gcc}" -E -x c - ; }

milliseconds() { date +%s%3N; }

# since START: the time from START until now, in seconds with one decimal
since() {
    local passed=$(($(milliseconds) - $1))
    echo "$((passed / 1000)).$((passed % 1000 / 100)) s"
}

# missing NEED...: the packages of the rows whose command fails, on one line
missing() {
    local need found=()
    for need in "$@"; do
        eval "${need#*|}" > /dev/null 2>&1 < /dev/null || found+=("${need%%|*}")
    done
    echo "${found[*]}"
}

# install_packages LOG PACKAGE...: with apt-get, as root or through sudo; otherwise says what to run. Packages of arm64 end in :arm64
install_packages() {
    local log=$1 as_root=() line
    shift
    line="apt-get update && apt-get install -y --no-install-recommends $*"
    [[ "$*" != *:arm64* ]] || line="dpkg --add-architecture arm64 && $line"
    if ! command -v apt-get > /dev/null; then
        echo "missing: $* (Debian's names; there is no apt-get here)" >&2
        return 1
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo > /dev/null; then
            printf 'missing: %s\nThis needs root. Run this, then %s again:\n\n    %s\n\n' "$*" "$0" "$line" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "$line" > "$log" 2>&1 || {
        tail -n 20 "$log" >&2
        printf 'could not install: %s\nThe command was, as root:\n\n    %s\n\n' "$*" "$line" >&2
        return 1
    }
}
