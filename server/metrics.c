/* metrics.c - series by labels, one lock a metric. */
#include "metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 20, SERIES = 512 }; /* 50 us * 2^19 = 26 s; labels come from bounded sets, so SERIES is never reached */

typedef struct series {
    char labels[160];
    double value; /* counter; histogram: sum */
    uint64_t count, bucket[BUCKETS + 1];
} series;

typedef struct metric {
    pthread_mutex_t lock;
    series *s;
    size_t n, cap;
} metric;

struct pe_metrics {
    metric counter[PE_NCOUNTERS], histogram[PE_NHISTOGRAMS];
};

static const struct {
    const char *name, *help;
} counters[] = {
#define X(name, help) { #name, help },
    PE_COUNTERS(X)
}, histograms[] = { PE_HISTOGRAMS(X)
#undef X
};

pe_metrics *pe_metrics_new(void)
{
    pe_metrics *m = calloc(1, sizeof *m);
    for (int i = 0; m && i < PE_NCOUNTERS; i++)
        pthread_mutex_init(&m->counter[i].lock, NULL);
    for (int i = 0; m && i < PE_NHISTOGRAMS; i++)
        pthread_mutex_init(&m->histogram[i].lock, NULL);
    return m;
}

void pe_metrics_free(pe_metrics *m)
{
    for (int i = 0; m && i < PE_NCOUNTERS; i++) {
        free(m->counter[i].s);
        pthread_mutex_destroy(&m->counter[i].lock);
    }
    for (int i = 0; m && i < PE_NHISTOGRAMS; i++) {
        free(m->histogram[i].s);
        pthread_mutex_destroy(&m->histogram[i].lock);
    }
    free(m);
}

/* The series of these labels, made when new; NULL when there is no memory. The metric's lock is held. */
static series *find(metric *m, const char *labels)
{
    if (!labels)
        labels = "";
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->s[i].labels, labels))
            return &m->s[i];
    if (m->n == SERIES || strlen(labels) >= sizeof m->s->labels)
        return NULL;
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 8;
        series *s = realloc(m->s, cap * sizeof *s);
        if (!s)
            return NULL;
        m->s = s;
        m->cap = cap;
    }
    series *s = &m->s[m->n++];
    memset(s, 0, sizeof *s);
    snprintf(s->labels, sizeof s->labels, "%s", labels);
    return s;
}

void pe_metrics_add(pe_metrics *m, pe_counter c, const char *labels, double v)
{
    pthread_mutex_lock(&m->counter[c].lock);
    series *s = find(&m->counter[c], labels);
    if (s)
        s->value += v;
    pthread_mutex_unlock(&m->counter[c].lock);
}

double pe_metrics_get(pe_metrics *m, pe_counter c, const char *labels)
{
    double v = 0;
    pthread_mutex_lock(&m->counter[c].lock);
    for (size_t i = 0; i < m->counter[c].n; i++)
        if (!strcmp(m->counter[c].s[i].labels, labels ? labels : ""))
            v = m->counter[c].s[i].value;
    pthread_mutex_unlock(&m->counter[c].lock);
    return v;
}

void pe_metrics_observe(pe_metrics *m, pe_histogram h, const char *labels, double seconds)
{
    int b = 0;
    for (double edge = 50e-6; b < BUCKETS && seconds > edge; edge *= 2)
        b++;
    pthread_mutex_lock(&m->histogram[h].lock);
    series *s = find(&m->histogram[h], labels);
    if (s) {
        s->value += seconds;
        s->count++;
        s->bucket[b]++;
    }
    pthread_mutex_unlock(&m->histogram[h].lock);
}

char *pe_metrics_text(pe_metrics *m, const char *gauges)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    for (int i = 0; i < PE_NCOUNTERS; i++) {
        metric *c = &m->counter[i];
        fprintf(f, "# HELP %s %s\n# TYPE %s counter\n", counters[i].name, counters[i].help, counters[i].name);
        pthread_mutex_lock(&c->lock);
        for (size_t k = 0; k < c->n; k++)
            fprintf(f, "%s%s%s%s %.17g\n", counters[i].name, c->s[k].labels[0] ? "{" : "", c->s[k].labels,
                    c->s[k].labels[0] ? "}" : "", c->s[k].value);
        pthread_mutex_unlock(&c->lock);
    }
    for (int i = 0; i < PE_NHISTOGRAMS; i++) {
        metric *h = &m->histogram[i];
        const char *name = histograms[i].name;
        fprintf(f, "# HELP %s %s\n# TYPE %s histogram\n", name, histograms[i].help, name);
        pthread_mutex_lock(&h->lock);
        for (size_t k = 0; k < h->n; k++) {
            const series *s = &h->s[k];
            const char *comma = s->labels[0] ? "," : "", *open = s->labels[0] ? "{" : "", *close = s->labels[0] ? "}" : "";
            uint64_t sum = 0;
            double edge = 50e-6;
            for (int b = 0; b < BUCKETS; b++, edge *= 2) {
                sum += s->bucket[b];
                fprintf(f, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, s->labels, comma, edge, (unsigned long long)sum);
            }
            fprintf(f, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, s->labels, comma, (unsigned long long)s->count);
            fprintf(f, "%s_sum%s%s%s %.9g\n%s_count%s%s%s %llu\n", name, open, s->labels, close, s->value, name, open,
                    s->labels, close, (unsigned long long)s->count);
        }
        pthread_mutex_unlock(&h->lock);
    }
    if (gauges)
        fputs(gauges, f);
    bool ok = !ferror(f);
    ok = !fclose(f) && ok;
    if (!ok) {
        free(text);
        text = NULL;
    }
    return text;
}
