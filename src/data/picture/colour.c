#include "data/picture/colour.h"

#include <math.h>

static float clamp(float value) {
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

/* The luma of pixel i. */
static float grey(const struct zt_picture *p, size_t i) {
    size_t plane = zt_picture_plane(p);
    return p->channels < 3 ? p->at[i] : 0.2989f * p->at[i] + 0.587f * p->at[plane + i] + 0.114f * p->at[2 * plane + i];
}

void zt_picture_brightness(struct zt_picture *p, float factor) {
    for (size_t i = 0; i < (size_t)p->channels * zt_picture_plane(p); i++)
        p->at[i] = clamp(factor * p->at[i]);
}

void zt_picture_contrast(struct zt_picture *p, float factor) {
    size_t plane = zt_picture_plane(p);
    double sum = 0;
    for (size_t i = 0; i < plane; i++)
        sum += (double)grey(p, i);
    float mean = (float)(sum / (double)plane);
    for (size_t i = 0; i < (size_t)p->channels * plane; i++)
        p->at[i] = clamp(factor * p->at[i] + (1 - factor) * mean);
}

void zt_picture_saturation(struct zt_picture *p, float factor) {
    size_t plane = zt_picture_plane(p);
    for (size_t i = 0; p->channels == 3 && i < plane; i++) {
        float to = grey(p, i);
        for (size_t c = 0; c < 3; c++)
            p->at[c * plane + i] = clamp(factor * p->at[c * plane + i] + (1 - factor) * to);
    }
}

/* The hue in turns, in [0, 1); 0 for greys. `most` and `range`: the largest channel, and its distance to the least. */
static float hue_of(const float rgb[3], float most, float range) {
    if (range == 0)
        return 0;
    float r = (most - rgb[0]) / range, g = (most - rgb[1]) / range, b = (most - rgb[2]) / range;
    float h = most == rgb[0] ? b - g : most == rgb[1] ? 2 + r - b : 4 + g - r;
    h = h / 6 + 1;
    return h - floorf(h);
}

/* From hue, saturation and value to red, green and blue. */
static void from_hue(float h, float s, float v, float rgb[3]) {
    float turn = h * 6, part = turn - floorf(turn);
    float low = clamp(v * (1 - s)), down = clamp(v * (1 - s * part)), up = clamp(v * (1 - s * (1 - part)));
    const float sixth[6][3] = { { v, up, low },   { down, v, low }, { low, v, up },
                                { low, down, v }, { up, low, v },   { v, low, down } };
    for (int c = 0; c < 3; c++)
        rgb[c] = sixth[(int)floorf(turn) % 6][c];
}

void zt_picture_hue(struct zt_picture *p, float by) {
    size_t plane = zt_picture_plane(p);
    for (size_t i = 0; p->channels == 3 && i < plane; i++) {
        float rgb[3] = { p->at[i], p->at[plane + i], p->at[2 * plane + i] };
        float most = fmaxf(rgb[0], fmaxf(rgb[1], rgb[2])), range = most - fminf(rgb[0], fminf(rgb[1], rgb[2]));
        float h = hue_of(rgb, most, range) + by;
        from_hue(h - floorf(h), range > 0 ? range / most : 0, most, rgb);
        for (size_t c = 0; c < 3; c++)
            p->at[c * plane + i] = rgb[c];
    }
}
