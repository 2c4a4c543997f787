#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

static posenc_status cannot(const char *path, posenc_error *err)
{
    return posenc_fail(err, PE_INTERNAL, "FILE", "output", path, "a place that can be written: %s", strerror(errno));
}

static posenc_status write_pieces(int fd, const char *path, const posenc_piece *piece, size_t n, const posenc_context *ctx,
                                  posenc_error *err)
{
    for (size_t i = 0; i < n; i++)
        for (uint64_t at = 0; at < piece[i].size;) {
            uint64_t left = piece[i].size - at;
            ssize_t k = write(fd, (const char *)piece[i].data + at, left < CHUNK ? (size_t)left : CHUNK);
            posenc_status st = posenc_poll(ctx);
            if (st)
                return posenc_fail(err, st, posenc_status_name(st), "output", path, "%s", posenc_status_meaning(st));
            if (k < 0 && errno != EINTR)
                return cannot(path, err);
            at += k > 0 ? (uint64_t)k : 0;
        }
    return PE_OK;
}

static mode_t usual_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static posenc_status replace(const char *path, mode_t mode, const posenc_piece *piece, size_t n, const posenc_context *ctx,
                             posenc_error *err)
{
    size_t size = strlen(path) + 8;
    char *name = malloc(size);
    if (!name)
        return cannot(path, err);
    snprintf(name, size, "%s.XXXXXX", path);
    int fd = mkostemp(name, O_CLOEXEC);
    posenc_status st = fd < 0 ? cannot(path, err) : write_pieces(fd, path, piece, n, ctx, err);
    if (fd >= 0) {
        if (!st && fchmod(fd, mode))
            st = cannot(path, err);
        if (close(fd) && !st)
            st = cannot(path, err);
        if (!st && rename(name, path))
            st = cannot(path, err);
        if (st)
            unlink(name);
    }
    free(name);
    return st;
}

posenc_status output_write(const char *path, const posenc_piece *piece, size_t n, const posenc_context *ctx,
                           posenc_error *err)
{
    struct stat s;
    if (!path)
        return write_pieces(STDOUT_FILENO, "standard output", piece, n, ctx, err);
    bool there = stat(path, &s) == 0;
    if (there && !S_ISREG(s.st_mode)) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        posenc_status st = fd < 0 ? cannot(path, err) : write_pieces(fd, path, piece, n, ctx, err);
        if (fd >= 0 && close(fd) && !st)
            st = cannot(path, err);
        return st;
    }
    char *real = there ? realpath(path, NULL) : NULL; /* through a symbolic link, so that the link stays */
    posenc_status st = replace(real ? real : path, there ? s.st_mode & 07777 : usual_mode(), piece, n, ctx, err);
    free(real);
    return st;
}
