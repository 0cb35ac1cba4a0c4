/* make_pictures FOLDER CLASSES FILES WIDTH HEIGHT: writes a folder for each class with JPEG files of that size, of
 * gradients, edges and noise, some 50 KB for 500 x 375 as photographs have. For tools/data_wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>

static unsigned char level(int file, int x, int y, int c) {
    const unsigned noise = (unsigned)(x * 7919 + y * 104729 + file * 1299709 + c * 15485863) * 2654435761u >> 27;
    const int edge = (x / 37 + y / 23 + file) % 5 * 30;
    return (unsigned char)((x * (c + 1) / 3 + y / 2 + edge + (int)noise) % 256);
}

static void write_file(const char *path, int file, int width, int height) {
    struct jpeg_compress_struct info = { 0 };
    struct jpeg_error_mgr errors;
    FILE *to = fopen(path, "wb");
    unsigned char *row = malloc(3 * (size_t)width);
    if (!to || !row)
        exit(1);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_stdio_dest(&info, to);
    info.image_width = (unsigned)width;
    info.image_height = (unsigned)height;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 80, TRUE);
    jpeg_start_compress(&info, TRUE);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < 3 * width; x++)
            row[x] = level(file, x / 3, y, x % 3);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(row);
    fclose(to);
}

int main(int count, char **argument) {
    if (count != 6)
        return 2;
    const int classes = atoi(argument[2]), files = atoi(argument[3]);
    mkdir(argument[1], 0755);
    for (int file = 0; file < files; file++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%04d", argument[1], file % classes);
        mkdir(path, 0755);
        snprintf(path + strlen(path), sizeof path - strlen(path), "/%06d.jpg", file);
        write_file(path, file, atoi(argument[4]), atoi(argument[5]));
    }
    return 0;
}
