#!/usr/bin/env python3
"""Writes tables.inc: numbers that the functions of this folder stand on, to the last bit. Needs mpmath.

    python3 base/math/make_tables.py > base/math/tables.inc
"""
import struct

from mpmath import chebyt, cos, erfc, exp, floor, ln, mp, mpf, pi, taylor

mp.prec = 1500


def short(value, bits):
    """The nearest number with so many bits behind the point."""
    return mpf(int(floor(value * mpf(2) ** bits + mpf(1) / 2))) / mpf(2) ** bits


def text(value):
    return float(value).hex()


def constant(name, value):
    print(f"static const double {name} = {text(value)};")


def pair(name, value, bits=None):
    """HI with so many bits behind the point, or all; LO the rest."""
    hi = mpf(float(value)) if bits is None else short(value, bits)
    constant(f"{name}_HI", hi)
    constant(f"{name}_LO", value - hi)


print("// Made by make_tables.py.")
constant("PER_LN2", 128 / ln(2))
pair("LN2_128", ln(2) / 128, 39)  # times a number of 18 bits exact
pair("LN2", ln(2), 42)
pair("LN2_PER", 1 / ln(2))
pair("LN10_PER", 1 / ln(10))
constant("LN_2", ln(2))
constant("TWO_PER_PI", 2 / pi)
half = pi / 2
first = short(half, 32)
second = short(half - first, 65)
constant("HALF_PI_1", first)  # 33 bits
constant("HALF_PI_2", second)  # 33 bits
constant("HALF_PI_3", half - first - second)
pair("HALF_PI", half)

print("\n// 2^(i/128)\nstatic const struct { double hi, lo; } POWERS[128] = {")
for i in range(128):
    value = mpf(2) ** (mpf(i) / 128)
    hi = mpf(float(value))
    print(f"    {{{text(hi)}, {text(value - hi)}}},")
print("};")

print("\n// log(1 + i/128), i from -38 to 53; hi is a multiple of 2^-42\nenum { FIRST_LOGARITHM = -38, LAST_LOGARITHM = 53 };")
print("static const struct { double hi, lo; } LOGARITHMS[LAST_LOGARITHM - FIRST_LOGARITHM + 1] = {")
for i in range(-38, 54):
    value = ln(1 + mpf(i) / 128)
    hi = short(value, 42)
    print(f"    {{{text(hi)}, {text(value - hi)}}},")
print("};")

print("\n// 2/pi behind the point\nenum { WORDS_OF_TWO_PER_PI = 20 };\nstatic const uint64_t BITS_OF_TWO_PER_PI[WORDS_OF_TWO_PER_PI] = {")
fraction = 2 / pi
for _ in range(20):
    fraction *= mpf(2) ** 64
    word = int(floor(fraction))
    fraction -= word
    print(f"    {word:#018x},")
print("};")

# erfc(x) = exp(-x^2) g(x), x >= 0; g as a function of y = 4 / (4 + x), by intervals of 1/64, in u = 2 (64 y - i) - 1.
mp.prec = 200
DEGREE = 9


def g(y):
    x = 4 / y - 4
    return exp(x * x) * erfc(x)


print(f"\n// exp(x^2) erfc(x) by y = 4 / (4 + x) in [i/64, (i + 1)/64), i from 8; in u = 2 (64 y - i) - 1\nenum {{ FIRST_TAIL = 8, TAIL_TERMS = {DEGREE + 1} }};")
print("static const double TAILS[64 - FIRST_TAIL][TAIL_TERMS] = {")
for i in range(8, 64):
    nodes = [cos(pi * (2 * k + 1) / (2 * (DEGREE + 1))) for k in range(DEGREE + 1)]
    values = [g((i + (node + 1) / 2) / mpf(64)) for node in nodes]
    coefficients = [mpf(0)] * (DEGREE + 1)
    for j in range(DEGREE + 1):
        weight = sum(v * chebyt(j, node) for v, node in zip(values, nodes)) * 2 / (DEGREE + 1)
        if j == 0:
            weight /= 2
        for n, c in enumerate(taylor(lambda t, j=j: chebyt(j, t), 0, j)):
            coefficients[n] += weight * c
    print("    {" + ", ".join(text(c) for c in coefficients) + "},")
print("};")
assert struct.calcsize("d") == 8
