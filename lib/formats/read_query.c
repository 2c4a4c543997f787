/* read_query.c - a request from names and values as typed in a query. */
#include "formats/input.h"

#include <stdio.h>
#include <string.h>

/* "1,2,3" as "[1,2,3]": a list of numbers is a tensor of one axis, whichever way it is typed. NULL: no memory. */
static const char *in_brackets(posenc_arena *a, const char *value, size_t *n)
{
    const bool list = *n > 0 && (value[0] == '-' || (value[0] >= '0' && value[0] <= '9')) && memchr(value, ',', *n);
    char *s = list ? posenc_alloc(a, *n + 2) : NULL;
    if (!list)
        return value;
    if (s) {
        s[0] = '[';
        memcpy(s + 1, value, *n);
        s[*n + 1] = ']';
        *n += 2;
    }
    return s;
}

posenc_status posenc_request_set(posenc_request *r, const char *name, const char *value, size_t n, posenc_error *err)
{
    const pe_place to = pe_place_of(r, name);
    posenc_tensor t;
    if (!to.row)
        return pe_no_place(r, name, err);
    if (to.row->kind != PE_T_TENSOR)
        return posenc_set_text(to.table, to.row, to.params, value, n, r->arena, err);
    if (!(value = in_brackets(r->arena, value, &n)))
        return pe_no_memory(name, err);
    posenc_status st = pe_read_tensor_text(value, n, to.row->name, r->arena, &t, err);
    return st ? st : pe_set_tensor(r, &to, &t, err);
}

posenc_status posenc_request_parse(posenc_request *r, const char *query, posenc_error *err)
{
    posenc_status worst = PE_OK;
    while (*query) {
        size_t len = strcspn(query, "& ");
        const char *eq = memchr(query, '=', len);
        size_t name_len = eq ? (size_t)(eq - query) : len;
        posenc_status st = PE_OK;
        char name[80];
        if (len) {
            snprintf(name, sizeof name, "%.*s", (int)(name_len < 79 ? name_len : 79), query);
            st = eq ? posenc_request_set(r, name, eq + 1, len - name_len - 1, err)
                    : posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", name, "no value", "name=value");
        }
        worst = st > worst ? st : worst;
        query += len + (query[len] != 0);
    }
    return worst;
}
