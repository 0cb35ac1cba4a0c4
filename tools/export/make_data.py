#!/usr/bin/env python3
"""Makes the sample data of configs/mlp.json, unet.json and gpt.json. Needs numpy.

    tools/export/make_data.py        from models/digits/*.bin, and from ztrain's own README and headers as they are now

An npz for ztrain has an array named after each input of the graph, and one named after the loss's target; the first axis
counts samples. Integers and floats of another width are converted to what the graph wants.

  models/digits/flat_train.npz    pixels float16 [N, 64] in 0..1: the 8x8 digits; target: the class
  models/digits/noisy_train.npz   noisy float16 [N, 1, 16, 16]: half of the pixels replaced by noise; target: the digit clean
  models/text/train.npz           tokens uint8 [N, 64]: ASCII text in pieces; target: the same one character later
and files *test.npz of the same form.
"""
import argparse
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS, TEXT = ROOT / "models" / "digits", ROOT / "models" / "text"
CONTEXT = 64


def digits(file):
    """(pixels [N, 8, 8] in 0..1, classes [N]): models/digits holds each pixel as 4x4 pixels of three channels."""
    records = np.fromfile(file, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return records[:, 1:].reshape(-1, 3, 32, 32)[:, 0, ::4, ::4] / 255, records[:, 0]


def flat(pixels, classes):
    return {"pixels": pixels.reshape(-1, 64).astype(np.float16), "target": classes}


def noisy(pixels, random):
    """Noise comes in 16 levels, so that the file stays small."""
    clean = pixels.repeat(2, 1).repeat(2, 2)[:, None]
    noise = random.integers(0, 16, clean.shape) / 15
    return {"noisy": np.where(random.random(clean.shape) < 0.5, noise, clean).astype(np.float16),
            "target": clean.astype(np.float16)}


def text(files):
    """Each token is the character whose ASCII code it is; what is not ASCII is left out."""
    tokens = np.frombuffer("".join(f.read_text() for f in files).encode("ascii", "ignore"), np.uint8)
    count = (tokens.size - 1) // CONTEXT
    return {"tokens": tokens[:count * CONTEXT].reshape(-1, CONTEXT),
            "target": tokens[1:count * CONTEXT + 1].reshape(-1, CONTEXT)}


def write(path, columns):
    np.savez_compressed(path, **columns)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes,",
          ", ".join(f"{name} {column.dtype}{list(column.shape)}" for name, column in columns.items()))


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    random = np.random.default_rng(0)
    for source, part, some in (("data_batch_1", "train", 500), ("test_batch", "test", 100)):
        pixels, classes = digits(DIGITS / f"{source}.bin")
        write(DIGITS / f"flat_{part}.npz", flat(pixels, classes))
        write(DIGITS / f"noisy_{part}.npz", noisy(pixels[:some], random))
    headers = [file for room in ("graph", "ops", "parallel") for file in sorted((ROOT / room).glob("*.h"))]
    write(TEXT / "train.npz", text([ROOT / "README.md", *headers]))
    write(TEXT / "test.npz", text([ROOT / "CONTRIBUTING.md"]))


if __name__ == "__main__":
    main()
