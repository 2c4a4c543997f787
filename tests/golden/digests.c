/* digests.c - computes the requests of digests.txt with this build of the library and holds the bytes of all outputs
 * against the frozen SHA-256.
 *
 * usage: digests FILE [--write]      a line: SHA256 encoding query [graph.npy nodes]; from the top folder
 *                                    analysis:encoding: the JSON of the analysis of its table
 * Links libposenc alone, so that it also runs where nothing else was built (another CPU under an emulator). */
#include "core/digest.h"
#include "posenc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc(1 << 22);
    if (!f || !data) {
        perror(path);
        exit(2);
    }
    *size = fread(data, 1, 1 << 22, f);
    fclose(f);
    return data;
}

static const posenc_edges *read_edges(const char *path, long long nodes, posenc_arena *a, posenc_edges *out)
{
    posenc_tensor t;
    posenc_error err = { 0 };
    size_t size;
    void *file = slurp(path, &size);
    if (posenc_read_npy(file, size, path, &t, a, &err) || t.rank != 2 || t.shape[0] != 2)
        exit(2);
    int64_t m = t.shape[1], *e = posenc_alloc(a, (size_t)(2 * m) * sizeof *e);
    for (int64_t i = 0; i < 2 * m; i++)
        e[i] = (int64_t)posenc_tensor_get(&t, i);
    free(file);
    *out = (posenc_edges){ .num_nodes = nodes, .nedges = m, .source = e, .target = e + m };
    return out;
}

static void finish(pe_hasher *h, char hex[65])
{
    pe_digest d;
    if (!pe_hash_final(h, &d))
        exit(2);
    pe_hex(&d, hex);
}

static void hash_analysis(const char *encoding, const char *query, const posenc_edges *edges, char hex[65])
{
    posenc_document d;
    posenc_error err = { 0 };
    char text[1000];
    if (posenc_analyze(encoding, query, edges, PE_json, &d, NULL, &err)) {
        fprintf(stderr, "analysis:%s %s: %s\n", encoding, query, posenc_error_text(&err, text, sizeof text));
        exit(2);
    }
    pe_hasher h;
    pe_hash_init(&h);
    for (size_t i = 0; i < d.npieces; i++)
        pe_hash_add(&h, d.piece[i].data, d.piece[i].size);
    finish(&h, hex);
    posenc_document_fini(&d);
}

static void hash(const char *encoding, const char *query, const posenc_edges *edges, char hex[65])
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    if (!strncmp(encoding, "analysis:", 9)) {
        hash_analysis(encoding + 9, query, edges, hex);
        return;
    }
    if (posenc_encode(encoding, query, edges, &a, NULL, &err)) {
        fprintf(stderr, "%s %s: %s\n", encoding, query, posenc_error_text(&err, text, sizeof text));
        exit(2);
    }
    pe_hasher h;
    pe_hash_init(&h);
    for (int i = 0; i < a.result.ntensors; i++)
        pe_hash_add(&h, a.result.tensor[i].data, posenc_tensor_size(&a.result.tensor[i]));
    finish(&h, hex);
    posenc_answer_fini(&a);
}

int main(int argc, char **argv)
{
    char line[1000], want[80], encoding[80], query[400], path[400];
    int passed = 0, failed = 0;
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!f)
        return 2;
    while (fgets(line, sizeof line, f)) {
        long long nodes = 0;
        int n = line[0] == '#' ? 0 : sscanf(line, "%79s %79s %399s %399s %lld", want, encoding, query, path, &nodes);
        if (n < 3) {
            if (argc > 2)
                fputs(line, stdout);
            continue;
        }
        posenc_arena *a = posenc_arena_new(1 << 26);
        posenc_edges edges;
        char hex[65];
        hash(encoding, query, n == 5 ? read_edges(path, nodes, a, &edges) : NULL, hex);
        posenc_arena_free(a);
        if (argc > 2) {
            printf("%s%s", hex, line + strcspn(line, " "));
        } else if (strcmp(hex, want)) {
            printf("FAIL %s %s: %s, frozen %s\n", encoding, query, hex, want);
            failed++;
        } else {
            passed++;
        }
    }
    fclose(f);
    if (argc < 3)
        printf("%d passed, %d failed\n", passed, failed);
    return failed || (argc < 3 && !passed);
}
