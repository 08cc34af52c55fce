#!/usr/bin/env python3
"""Small pictures of every kind and what Pillow's convert("RGB") makes of them, sizes that it gives them, and what transformers' image processors
make of one. Pillow 12 (13 resizes in another order for some sizes): pip install pillow==12.3.0.

    files/NAME                the pictures; animated.webp is to be refused
    scaled.txt                NAME LEAST_WIDTH LEAST_HEIGHT WIDTH HEIGHT SHA-256 of the bytes that Pillow's draft() of it leaves
    expected.txt              NAME WIDTH HEIGHT OFFSET, their pixels in expected.rgb from there on
    resized.txt               of noise (see noise()): WIDTH HEIGHT SEED FILTER WIDTH HEIGHT SHA-256 of the bytes
    processed.txt             NAME, OFFSET in processed.f32, and a preprocessor_config.json in one line; of files/photo.png, (channel, y, x)
"""

import hashlib
import io
import json
import os
import struct
import sys
import zlib

import numpy
import PIL
from PIL import Image, ImageOps

HERE = os.path.dirname(os.path.abspath(__file__))
assert PIL.__version__.startswith("12."), PIL.__version__


def noise(width, height, seed):
    """Bytes of a linear congruential generator."""
    state, out = seed, bytearray()
    for _ in range(width * height * 3):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(state >> 24)
    return Image.frombytes("RGB", (width, height), bytes(out))


def smooth(width, height):
    y, x = numpy.mgrid[0:height, 0:width]
    red = 255 * x / (width - 1)
    green = 255 * y / (height - 1)
    blue = 127 + 120 * numpy.sin(x * 0.7 + y * 0.4)
    return Image.fromarray(numpy.stack([red, green, blue], axis=-1).astype("uint8"))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png16(width, height, colour, samples, interlaced=False):
    """PNG of 16 bits a sample, big-endian; Pillow writes no RGB ones."""
    rows = samples.astype(">u2").reshape(height, -1)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def interlaced_png(picture):
    """Adam7 by hand, without filters."""
    a = numpy.array(picture)
    height, width, _ = a.shape
    data = b""
    for y0, x0, dy, dx in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]:
        part = a[y0::dy, x0::dx]
        if part.size:
            data += b"".join(b"\0" + row.tobytes() for row in part)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def small_png(width, height, colour, bits, values, palette=None):
    """PNG of 1, 2 or 4 bits a sample, which Pillow writes of grey only in 1."""
    rows = numpy.asarray(values).reshape(height, width)
    data = b""
    for row in rows:
        line = "".join(f"{v:0{bits}b}" for v in row)
        line += "0" * (-len(line) % 8)
        data += b"\0" + bytes(int(line[i : i + 8], 2) for i in range(0, len(line), 8))
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    colours = chunk(b"PLTE", palette) if palette else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + colours + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def without_adobe(data):
    """A JPEG without the marker that says how Adobe means its inks."""
    at = data.index(b"\xff\xee")
    return data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2 : at + 4])[0] :]


def as_ycck(data):
    """The same numbers, said to be luminance, two colours and black."""
    at = data.index(b"Adobe") + 11
    assert data[at] == 0
    return data[:at] + b"\x02" + data[at + 1 :]


def encoded(picture, kind, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def files():
    photo = smooth(23, 17)
    rough = noise(23, 17, 5)
    alpha = photo.copy()
    alpha.putalpha(Image.fromarray((numpy.arange(23 * 17) % 256).astype("uint8").reshape(17, 23)))
    palette = photo.quantize(13)
    clear = palette.copy()
    yield "photo.png", encoded(photo, "PNG")
    yield "noise.png", encoded(rough, "PNG")
    yield "grey.png", encoded(photo.convert("L"), "PNG")
    yield "grey_alpha.png", encoded(alpha.convert("LA"), "PNG")
    yield "alpha.png", encoded(alpha, "PNG")
    yield "palette.png", encoded(palette, "PNG")
    yield "palette_clear.png", encoded(clear, "PNG", transparency=3)
    yield "palette4.png", encoded(photo.quantize(4), "PNG", bits=2)
    yield "bilevel.png", encoded(photo.convert("1"), "PNG")
    yield "colour_key.png", encoded(photo, "PNG", transparency=(0, 0, 7))
    yield "interlaced.png", interlaced_png(rough)
    samples = (numpy.arange(9 * 7 * 3) * 2749 + 513) % 65536
    yield "rgb16.png", png16(9, 7, 2, samples)
    yield "grey16.png", png16(9, 7, 0, samples[:63])
    yield "photo.jpg", encoded(photo, "JPEG", quality=80)
    yield "photo444.jpg", encoded(photo, "JPEG", quality=95, subsampling=0)
    yield "photo422.jpg", encoded(photo, "JPEG", quality=90, subsampling=1)
    yield "progressive.jpg", encoded(photo, "JPEG", quality=85, progressive=True)
    yield "grey.jpg", encoded(photo.convert("L"), "JPEG")
    yield "cmyk.jpg", encoded(photo.convert("CMYK"), "JPEG", quality=90)
    for n in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = n
        yield f"turned{n}.jpg", encoded(photo, "JPEG", quality=80, exif=exif)
    exif = Image.Exif()
    exif[0x0112] = 6
    yield "turned6.png", encoded(photo, "PNG", exif=exif)
    yield "turned6.webp", encoded(photo, "WEBP", lossless=True, exif=exif)
    yield "photo.webp", encoded(photo, "WEBP", quality=70)
    yield "lossless.webp", encoded(rough, "WEBP", lossless=True)
    yield "alpha.webp", encoded(alpha, "WEBP", lossless=True, exact=True)
    samples = (numpy.arange(9 * 7 * 4) * 2749 + 513) % 65536
    yield "rgba16.png", png16(9, 7, 6, samples)
    yield "grey_alpha16.png", png16(9, 7, 4, samples[:126])
    yield "grey2.png", small_png(9, 7, 0, 2, numpy.arange(63) * 5 % 4)
    yield "grey4.png", small_png(9, 7, 0, 4, numpy.arange(63) * 7 % 16)
    yield "palette1.png", small_png(9, 7, 3, 1, numpy.arange(63) % 3 // 2, bytes([200, 10, 30, 5, 90, 250]))
    yield "palette16.png", small_png(9, 7, 3, 4, numpy.arange(63) * 11 % 16, bytes(range(3, 99, 2)))
    yield "one.png", encoded(rough.crop((0, 0, 1, 1)), "PNG")
    inks = encoded(photo.convert("CMYK"), "JPEG", quality=90)
    yield "cmyk_plain.jpg", without_adobe(inks)
    yield "ycck.jpg", as_ycck(inks)
    yield "restarts.jpg", encoded(photo, "JPEG", quality=85, restart_marker_blocks=1)
    yield "optimised.jpg", encoded(rough, "JPEG", quality=40, optimize=True)
    yield "alpha_lossy.webp", encoded(alpha, "WEBP", quality=60, exact=True)
    yield "one.jpg", encoded(rough.crop((0, 0, 1, 1)), "JPEG", quality=90)


def pixels(data, name):
    if name == "grey16.png":  # Pillow's convert cuts at 255: the high byte is meant, as it has it where there are more channels
        a = numpy.array(Image.open(io.BytesIO(data))).astype("uint32")
        return Image.fromarray((a >> 8).astype("uint8")).convert("RGB")
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def write_files():
    os.makedirs(os.path.join(HERE, "files"), exist_ok=True)
    at = 0
    with open(os.path.join(HERE, "expected.txt"), "w") as index, open(os.path.join(HERE, "expected.rgb"), "wb") as out:
        for name, data in files():
            with open(os.path.join(HERE, "files", name), "wb") as f:
                f.write(data)
            picture = pixels(data, name)
            index.write(f"{name} {picture.width} {picture.height} {at}\n")
            at += out.write(picture.tobytes())
    with open(os.path.join(HERE, "files", "animated.webp"), "wb") as f:
        f.write(encoded(smooth(9, 7), "WEBP", save_all=True, append_images=[noise(9, 7, 1)], lossless=True))


SIZES = [(7, 5, 3, 3), (7, 5, 14, 10), (64, 48, 32, 32), (64, 48, 17, 31), (33, 90, 90, 33), (100, 3, 10, 30), (1, 1, 8, 8), (8, 8, 1, 1),
         (50, 50, 50, 20), (50, 50, 20, 50), (50, 50, 50, 50), (200, 150, 37, 28), (31, 37, 224, 224), (255, 201, 32, 25)]


def large_files():
    large = smooth(150, 101)
    yield "large.jpg", encoded(large, "JPEG", quality=75)
    yield "large444.jpg", encoded(large, "JPEG", quality=75, subsampling=0)
    yield "large_grey.jpg", encoded(large.convert("L"), "JPEG", quality=75, progressive=True)


LEAST = [(150, 101), (76, 51), (75, 50), (40, 30), (37, 25), (18, 13), (18, 12), (1, 1)]


def write_scaled():
    with open(os.path.join(HERE, "scaled.txt"), "w") as out:
        for name, data in large_files():
            with open(os.path.join(HERE, "files", name), "wb") as f:
                f.write(data)
            for least in LEAST:
                picture = Image.open(io.BytesIO(data))
                picture.draft(picture.mode, least)
                picture = picture.convert("RGB")
                out.write(f"{name} {least[0]} {least[1]} {picture.width} {picture.height} {hashlib.sha256(picture.tobytes()).hexdigest()}\n")


def write_resized():
    with open(os.path.join(HERE, "resized.txt"), "w") as out:
        for seed, (w, h, to_w, to_h) in enumerate(SIZES):
            for kind in (1, 2, 3):
                small = noise(w, h, seed + 1).resize((to_w, to_h), kind)
                out.write(f"{w} {h} {seed + 1} {kind} {to_w} {to_h} {hashlib.sha256(small.tobytes()).hexdigest()}\n")


RULES = {
    "vit": {"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 14}},
    "vit_old": {"feature_extractor_type": "ViTFeatureExtractor", "size": 11, "resample": 2, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.25, 0.2]},
    "vit_bicubic": {"image_processor_type": "ViTImageProcessorFast", "size": {"height": 30, "width": 40}, "resample": 3},
    "vit_plain": {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}, "do_normalize": False},
    "deit": {"image_processor_type": "DeiTImageProcessor", "size": {"height": 16, "width": 16}, "crop_size": {"height": 9, "width": 12},
             "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
    "bit": {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 14}, "crop_size": {"height": 10, "width": 13},
            "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
    "bit_default": {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 11}, "crop_size": 11},
}


def write_processed():
    import transformers

    picture = Image.open(os.path.join(HERE, "files", "photo.png")).convert("RGB")
    at = 0
    with open(os.path.join(HERE, "processed.txt"), "w") as index, open(os.path.join(HERE, "processed.f32"), "wb") as out:
        for name, rules in RULES.items():
            kind = next(k for k in ("ViT", "DeiT", "Bit") if rules.get("image_processor_type", rules.get("feature_extractor_type")).startswith(k))
            processor = getattr(transformers, kind + "ImageProcessorPil")(**{k: v for k, v in rules.items() if not k.endswith("_type")})
            values = numpy.asarray(processor(picture, return_tensors="np")["pixel_values"][0], dtype="<f4")
            index.write(f"{name} {at} {values.shape[1]} {values.shape[2]} {json.dumps(rules)}\n")
            at += out.write(values.tobytes())


write_files()
write_scaled()
write_resized()
if "--without-transformers" not in sys.argv:
    write_processed()
