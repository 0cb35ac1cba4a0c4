#!/usr/bin/env python3
"""Torchvision's transforms and Pillow's files for test_pictures.c: picture_table.py > picture_table.inc

Pixels are functions of their number that both sides compute: ((37 i + 11) mod 251) / 250. Needs torch, torchvision and
Pillow.
"""
import io

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms import functional as F


def pixels(channels, height, width):
    i = torch.arange(channels * height * width, dtype=torch.float64)
    return (((i * 37 + 11) % 251) / 250).reshape(channels, height, width).float()


def row(values):
    return "{ " + ", ".join(f"{v:.7g}" for v in values.flatten().tolist()) + " }"


def case(name, kind, shape, parameters, result):
    print(f'    {{ "{name}", {kind}, {{ {", ".join(map(str, shape))} }}, {{ {", ".join(map(str, parameters))} }}, '
          f"{{ {result.shape[1]}, {result.shape[2]} }},\n      {row(result)} }},")


def transforms():
    for channels, height, width, to in [(1, 7, 5, (3, 4)), (3, 6, 9, (2, 3)), (1, 4, 3, (7, 8)), (3, 5, 5, (5, 3)), (1, 9, 4, (4, 4))]:
        case("resize", "RESIZE", (channels, height, width), to, F.resize(pixels(channels, height, width), list(to), antialias=True))
    for height, width, to in [(5, 4, (2, 3)), (6, 6, (3, 3)), (7, 6, (4, 3))]:
        case("centre", "CENTER", (1, height, width), to, F.center_crop(pixels(1, height, width), list(to)))
    for channels in (3, 1):
        picture = pixels(channels, 3, 4)
        for factor in (0.3, 1.7):
            case("brightness", "BRIGHTNESS", picture.shape, [factor], F.adjust_brightness(picture, factor))
            case("contrast", "CONTRAST", picture.shape, [factor], F.adjust_contrast(picture, factor))
            case("saturation", "SATURATION", picture.shape, [factor], F.adjust_saturation(picture, factor))
        for turns in (-0.4, 0.13, 0.5):
            case("hue", "HUE", picture.shape, [turns], F.adjust_hue(picture, turns))


def levels(height, width):
    y, x = np.mgrid[:height, :width]
    return np.stack([20 * x + 3 * y, 255 - 25 * y, 128 + 10 * (x - y)], -1).clip(0, 255).astype(np.uint8)


def file(name, picture, tolerance, **options):
    to = io.BytesIO()
    picture.save(to, **options)
    to.seek(0)
    rgb = np.asarray(Image.open(to).convert("RGB"))
    print(f'    {{ "{name}", {len(to.getvalue())}, {rgb.shape[0]}, {rgb.shape[1]}, {tolerance},\n'
          f'      {{ {", ".join(map(str, to.getvalue()))} }},\n      {{ {", ".join(map(str, rgb.flatten()))} }} }},')


def files():
    colour = Image.fromarray(levels(6, 9))
    grey = colour.convert("L")
    file("colour.jpg", colour, 2, format="JPEG", quality=90)
    file("progressive.jpg", colour, 2, format="JPEG", quality=90, progressive=True)
    file("grey.jpg", grey, 2, format="JPEG", quality=90)
    file("cmyk.jpg", colour.convert("CMYK"), 3, format="JPEG", quality=95)
    file("colour.png", colour, 0, format="PNG")
    file("grey.png", grey, 0, format="PNG")
    file("bits.png", grey.convert("1"), 0, format="PNG")
    file("alpha.png", Image.merge("RGBA", [*colour.split(), grey]), 0, format="PNG")
    file("palette.png", colour.quantize(16), 0, format="PNG")
    file("transparent.png", colour.quantize(16), 0, format="PNG", transparency=3)


print(f"/* Made by picture_table.py with torchvision {torchvision.__version__.split('+')[0]} and Pillow {Image.__version__} */")
print("static const struct transform transforms[] = {")
transforms()
print("};\nstatic const struct image_bytes files[] = {")
files()
print("};")
