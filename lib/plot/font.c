/* font.c - a font of strokes, for rasters.
 *
 * A glyph stands on a grid: capitals from line 0 to the base line 14, small letters from line 5, tails to line 18. A stroke
 * is a list of points, two letters each (A = 0, B = 1, ...: column, line); `~` in front makes it a smooth curve through its
 * points. Strokes are separated by blanks. */
#include "plot/canvas.h"

#include <string.h>

enum { BASE = 14, EM = 19, FIRST = ' ', MOST = 128 };

typedef struct glyph {
    int advance;
    const char *strokes;
} glyph;

static const glyph glyphs[] = {
    { 6, "" },                                          /* space */
    { 5, "BABJ BNBO" },                                 /* ! */
    { 8, "BABE FAFE" },                                 /* " */
    { 13, "BFKF AJJJ EACO JAHO" },                      /* # */
    { 11, "~IDFBCCAFEHIKGNDNAL EAEP" },                 /* $ */
    { 13, "JABO ~CAECCFACCA ~IJKLIOGLIJ" },             /* % */
    { 12, "~KODHCCEAHCCIALDOGNKI" },                    /* & */
    { 5, "BABE" },                                      /* ' */
    { 6, "~EABEAIBMEQ" },                               /* ( */
    { 6, "~AADEEIDMAQ" },                               /* ) */
    { 10, "ECEK AEIJ IEAJ" },                           /* * */
    { 11, "AJIJ EFEN" },                                /* + */
    { 5, "CNBQ" },                                      /* , */
    { 9, "AJGJ" },                                      /* - */
    { 5, "BNBO" },                                      /* . */
    { 8, "GAAP" },                                      /* / */
    { 11, "~EAHCIHHMEOBMAHBCEA" },                      /* 0 */
    { 11, "BDEAEO BOHO" },                              /* 1 */
    { 11, "~ADBBEAHBIEGIAO AOIO" },                     /* 2 */
    { 11, "~ACEAIDHGDH ~DHHIILEOAM" },                  /* 3 */
    { 11, "GOGAAKIK" },                                 /* 4 */
    { 11, "HABAAG ~AGEFIJEOAM" },                       /* 5 */
    { 11, "~HBEABDAIBMEOIKEGAJ" },                      /* 6 */
    { 11, "AAIADO" },                                   /* 7 */
    { 11, "~EAHCHFEHBFBCEA ~EHIJIMEOAMAJEH" },          /* 8 */
    { 11, "~BNEOHLIGHCEAAEEIIF" },                      /* 9 */
    { 5, "BGBH BNBO" },                                 /* : */
    { 5, "BGBH CNBQ" },                                 /* ; */
    { 11, "IFAJIN" },                                   /* < */
    { 11, "AHIH ALIL" },                                /* = */
    { 11, "AFIJAN" },                                   /* > */
    { 10, "~ADBBEAHCHFEIEK ENEO" },                     /* ? */
    { 15, "~JJHGFJGLIKJH JGJKLK ~LKMHLDHBDDBIDNHPKO" }, /* @ */
    { 12, "AOFAKO CJIJ" },                              /* A */
    { 13, "AAAO AAFA ~FAJCJFFH AHFH ~FHKJKMFO AOFO" },  /* B */
    { 13, "~KDIBFABDAHBLFOINKL" },                      /* C */
    { 13, "AAAO AAEA ~EAJDKHJLEO AOEO" },               /* D */
    { 12, "JAAAAOJO AHHH" },                            /* E */
    { 11, "JAAAAO AHHH" },                              /* F */
    { 13, "~KDIBFABDAHBLFOINKL KLKIGI" },               /* G */
    { 13, "AAAO KAKO AHKH" },                           /* H */
    { 5, "BABO" },                                      /* I */
    { 9, "GAGK ~GKFNDOBNAL" },                          /* J */
    { 12, "AAAO KAAI EFKO" },                           /* K */
    { 11, "AAAOJO" },                                   /* L */
    { 15, "AOAAGLMAMO" },                               /* M */
    { 13, "AOAAKOKA" },                                 /* N */
    { 13, "~FAJCKHJMFOBMAHBCFA" },                      /* O */
    { 12, "AOAA AAFA ~FAKCKGFI AIFI" },                 /* P */
    { 13, "~FAJCKHJMFOBMAHBCFA GKKP" },                 /* Q */
    { 13, "AOAA AAFA ~FAKCKGFI AIFI FIKO" },            /* R */
    { 12, "~JCFABBAEFHKKJNFOAM" },                      /* S */
    { 12, "AAKA FAFO" },                                /* T */
    { 13, "AAAJ ~AJBMFOJMKJ KJKA" },                    /* U */
    { 12, "AAFOKA" },                                   /* V */
    { 15, "AADOGCJOMA" },                               /* W */
    { 12, "AAKO KAAO" },                                /* X */
    { 12, "AAFHKA FHFO" },                              /* Y */
    { 12, "AAKAAOKO" },                                 /* Z */
    { 6, "DAAAAQDQ" },                                  /* [ */
    { 8, "AAGP" },                                      /* backslash */
    { 6, "AADADQAQ" },                                  /* ] */
    { 10, "BFEAHF" },                                   /* ^ */
    { 11, "AQIQ" },                                     /* _ */
    { 6, "BADD" },                                      /* ` */
    { 11, "IFIO ~IIFFCFAIALCOFOIL" },                   /* a */
    { 11, "AAAO ~AIDFGFIIILGODOAL" },                   /* b */
    { 10, "~IHFFCGAJCNFOIM" },                          /* c */
    { 11, "IAIO ~IIFFCFAIALCOFOIL" },                   /* d */
    { 11, "AJIJ ~IJHGEFBGAJBNEOIM" },                   /* e */
    { 7, "~GADACD CDCO AFFF" },                         /* f */
    { 11, "IFIP ~IPHSESBR ~IIFFCFAIALCOFOIL" },         /* g */
    { 11, "AAAO ~AIDFGFII IIIO" },                      /* h */
    { 4, "BFBO BBBC" },                                 /* i */
    { 6, "DFDP ~DPCSAS DBDC" },                         /* j */
    { 10, "AAAO HFAK DIIO" },                           /* k */
    { 4, "BABO" },                                      /* l */
    { 17, "AFAO ~AIDFGFHI HIHO ~HIKFNFOI OIOO" },       /* m */
    { 11, "AFAO ~AIDFGFII IIIO" },                      /* n */
    { 11, "~EFHGIJHNEOBNAJBGEF" },                      /* o */
    { 11, "AFAS ~AIDFGFIIILGODOAL" },                   /* p */
    { 11, "IFIS ~IIFFCFAIALCOFOIL" },                   /* q */
    { 7, "AFAO ~AIDFGF" },                              /* r */
    { 10, "~HGEFAHEJIMEOAM" },                          /* s */
    { 8, "CBCL ~CLDNGO AFGF" },                         /* t */
    { 11, "AFAL ~ALCOFOIL IFIO" },                      /* u */
    { 10, "AFEOIF" },                                   /* v */
    { 14, "AFDOGGJOMF" },                               /* w */
    { 10, "AFIO IFAO" },                                /* x */
    { 10, "AFEO IFEOCS" },                              /* y */
    { 10, "AFIFAOIO" },                                 /* z */
    { 7, "FAEADBDGBIDKDPEQFQ" },                        /* { */
    { 5, "BABS" },                                      /* | */
    { 7, "AABACBCGEICKCPBQAQ" },                        /* } */
    { 11, "~AKCIEJGLIJ" },                              /* ~ */
};

static const glyph *glyph_of(char c)
{
    const size_t i = (size_t)((unsigned char)c - FIRST);
    return &glyphs[(unsigned char)c >= FIRST && i < sizeof glyphs / sizeof glyphs[0] ? i : '?' - FIRST];
}

double pe_font_width(const char *text, double size)
{
    int units = 0;
    for (; *text; text++)
        units += glyph_of(*text)->advance;
    return units * size / EM;
}

/* Catmull and Rom's curve through the points, three points more in each step; a closed one goes on where it began. */
static size_t smooth(const pe_point *p, size_t n, pe_point *out)
{
    enum { STEPS = 4 };
    const bool closed = n > 2 && p[0].x == p[n - 1].x && p[0].y == p[n - 1].y;
    size_t m = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        const pe_point b = p[i], c = p[i + 1],
                       a = i > 0    ? p[i - 1]
                           : closed ? p[n - 2]
                                    : b,
                       d = i + 2 < n ? p[i + 2]
                           : closed  ? p[1]
                                     : c;
        for (int k = 0; k < STEPS; k++) {
            const double t = k / (double)STEPS, u = t * t, v = u * t;
            out[m++] = (pe_point){
                0.5 * (2 * b.x + (c.x - a.x) * t + (2 * a.x - 5 * b.x + 4 * c.x - d.x) * u +
                       (3 * b.x - a.x - 3 * c.x + d.x) * v),
                0.5 * (2 * b.y + (c.y - a.y) * t + (2 * a.y - 5 * b.y + 4 * c.y - d.y) * u +
                       (3 * b.y - a.y - 3 * c.y + d.y) * v),
            };
        }
    }
    out[m++] = p[n - 1];
    return m;
}

/* One stroke of a glyph, from where `s` stands to the next blank. */
static const char *stroke_of(const char *s, double left, double unit, pe_stroke *stroke, void *user)
{
    pe_point p[MOST / 4], curve[MOST];
    size_t n = 0;
    const bool curved = *s == '~';
    for (s += curved; *s && *s != ' '; s += 2)
        p[n++] = (pe_point){ left + (s[0] - 'A') * unit, (s[1] - 'A' - BASE) * unit };
    if (curved)
        stroke(user, curve, smooth(p, n, curve));
    else
        stroke(user, p, n);
    return *s ? s + 1 : s;
}

void pe_font_strokes(const char *text, double size, pe_stroke *stroke, void *user)
{
    const double unit = size / EM;
    double left = unit; /* half the space between letters */
    for (; *text; text++) {
        const glyph *g = glyph_of(*text);
        for (const char *s = g->strokes; *s;)
            s = stroke_of(s, left, unit, stroke, user);
        left += g->advance * unit;
    }
}
