/* replay.c - runs a fuzz target over files, where libFuzzer is not linked: every file of the corpus, then each of them
 * with bytes flipped and cut off, so that plain builds try the target's edges as well.
 *
 * usage: fuzz_TARGET FILE_OR_FOLDER ... */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long runs;

/* A copy of exactly the size: reading past its end is seen by the sanitizers. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st)) {
        perror(path);
        exit(1);
    }
    if (S_ISDIR(st.st_mode)) {
        DIR *d = opendir(path);
        for (struct dirent *e; d && (e = readdir(d));) {
            char child[1024];
            snprintf(child, sizeof child, "%s/%s", path, e->d_name);
            if (e->d_name[0] != '.')
                replay(child);
        }
        if (d)
            closedir(d);
        return;
    }
    FILE *f = fopen(path, "rb");
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!f || !data || fread(data, 1, size, f) != size)
        exit(1);
    fclose(f);
    run(data, size);
    size_t step = size / 64 + 1;
    for (size_t i = 0; i < size; i += step) {
        run(data, i);
        data[i] ^= (uint8_t)(1u << (i % 8));
        run(data, size);
        data[i] ^= (uint8_t)(1u << (i % 8));
    }
    free(data);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%s: %ld inputs\n", argv[0], runs);
    return runs ? 0 : 1;
}
