/* Solves positions of Connect Four: for each, what every move is worth.
 *
 *     cc -O3 -march=native -o connect_four_solver connect_four_solver.c
 *     echo 333333 | ./connect_four_solver
 *
 * Lines of standard input are games, the columns 0 to 6 that were played one after the other; "-" is the empty board.
 * Each is printed with seven letters, what the moves are worth to whoever makes them: W won, D drawn, L lost, "." not
 * possible; then how many positions were looked at. Games that are over are an error.
 *
 * Alpha-beta search (Knuth and Moore 1975) over won, drawn and lost, with a transposition table that has the whole
 * position as its key. The stones are bits, seven of them a column, the lowest cell first, the seventh never taken
 * (Tromp's "Fhourstones"). Moves that lose at once are left out, moves that block are forced, and others come in the
 * order of how many winning cells they leave to whoever makes them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Bits;

enum { COLUMNS = 7, ROWS = 6, HEIGHT = 7, CELLS = 42, LOST = -1, DRAWN = 0, WON = 1 };

static const Bits BOTTOM = 0x0040810204081ULL;        /* the lowest cell of each column */
static const Bits BOARD = 0x0040810204081ULL * 63;    /* all cells */
static const int ORDER[COLUMNS] = {3, 2, 4, 1, 5, 0, 6};
/* With fewer stones a position and its mirror image are one. */
static const int MIRRORED_BELOW = 14;

static Bits column(int x) { return (Bits)63 << (HEIGHT * x); }

/* Empty cells that would give four in a line to who has `own`. */
static Bits winning_cells(Bits own, Bits taken)
{
    Bits found = (own << 1) & (own << 2) & (own << 3);
    for (int step = HEIGHT - 1; step <= HEIGHT + 1; step++) {
        Bits pair = (own << step) & (own << 2 * step);
        found |= pair & (own << 3 * step);
        found |= pair & (own >> step);
        pair = (own >> step) & (own >> 2 * step);
        found |= pair & (own << step);
        found |= pair & (own >> 3 * step);
    }
    return found & BOARD & ~taken;
}

static Bits possible_cells(Bits taken) { return (taken + BOTTOM) & BOARD; }

static Bits mirrored(Bits key)
{
    Bits found = 0;
    for (int x = 0; x < COLUMNS; x++)
        found |= ((key >> (HEIGHT * x)) & 127) << (HEIGHT * (COLUMNS - 1 - x));
    return found;
}

/* -- transposition table: in each bucket the position with fewest stones, and the last one */

typedef struct {
    Bits first, last; /* 49 bits of key, then lower and upper bound plus one, two bits each, then six of stones */
} Bucket;

static Bucket *table;
static Bits mask_of_table;
static uint64_t nodes;

static Bits packed(Bits key, int lower, int upper, int stones)
{
    return key | (Bits)(lower + 1) << 49 | (Bits)(upper + 1) << 51 | (Bits)stones << 53;
}

static Bits key_of(Bits entry) { return entry & (((Bits)1 << 49) - 1); }

static Bucket *bucket_of(Bits key) { return table + ((key * 0x9E3779B97F4A7C15ULL >> 20) & mask_of_table); }

static void look_up(Bits key, int *lower, int *upper)
{
    Bucket *bucket = bucket_of(key);
    Bits entry = key_of(bucket->first) == key ? bucket->first : bucket->last;
    if (key_of(entry) != key) return;
    *lower = (int)(entry >> 49 & 3) - 1;
    *upper = (int)(entry >> 51 & 3) - 1;
}

static void store(Bits key, int lower, int upper, int stones)
{
    Bucket *bucket = bucket_of(key);
    Bits entry = packed(key, lower, upper, stones);
    if (bucket->first == 0 || key_of(bucket->first) == key || stones <= (int)(bucket->first >> 53))
        bucket->first = entry;
    else
        bucket->last = entry;
}

/* -- search */

/* The value for whoever moves, exact between alpha and beta. `own` are his stones, and he has no move that wins. */
static int value_of(Bits own, Bits taken, int alpha, int beta)
{
    nodes++;
    Bits other = own ^ taken;
    Bits moves = possible_cells(taken), threats = winning_cells(other, taken);
    if (!moves) return DRAWN;
    Bits forced = moves & threats;
    if (forced & (forced - 1)) return LOST;
    if (forced) moves = forced;
    moves &= ~(threats >> 1); /* a stone below a winning cell of the other gives it away */
    if (!moves) return LOST;
    int stones = __builtin_popcountll(taken);
    if (stones >= CELLS - 2) return DRAWN;

    Bits key = own + taken + BOTTOM;
    if (stones < MIRRORED_BELOW) {
        Bits image = mirrored(key);
        if (image < key) key = image;
    }
    int lower = LOST, upper = WON;
    look_up(key, &lower, &upper);
    if (lower >= beta || lower == upper) return lower;
    if (upper <= alpha) return upper;
    if (lower > alpha) alpha = lower;
    if (upper < beta) beta = upper;

    Bits sorted[COLUMNS];
    int scores[COLUMNS], count = 0;
    for (int i = 0; i < COLUMNS; i++) {
        Bits move = moves & column(ORDER[i]);
        if (!move) continue;
        int score = __builtin_popcountll(winning_cells(own | move, taken | move)), place = count++;
        for (; place && scores[place - 1] < score; place--) {
            scores[place] = scores[place - 1];
            sorted[place] = sorted[place - 1];
        }
        scores[place] = score;
        sorted[place] = move;
    }
    int best = LOST, floor = alpha;
    for (int i = 0; i < count && best < beta; i++) {
        int value = -value_of(other, taken | sorted[i], -beta, -floor);
        if (value > best) best = value;
        if (best > floor) floor = best;
    }
    if (best <= alpha)
        upper = best < upper ? best : upper;
    else if (best >= beta)
        lower = best > lower ? best : lower;
    else
        lower = upper = best;
    store(key, lower, upper, stones);
    return best;
}

/* What whoever moves gets, who may have a move that wins. First whether it is won, then whether it is drawn. */
static int solved(Bits own, Bits taken)
{
    if (possible_cells(taken) & winning_cells(own, taken)) return WON;
    if (value_of(own, taken, DRAWN, WON) == WON) return WON;
    return value_of(own, taken, LOST, DRAWN) >= DRAWN ? DRAWN : LOST;
}

static int solve_moves(const char *game)
{
    Bits own = 0, taken = 0; /* own: of whoever moves */
    for (const char *move = strcmp(game, "-") ? game : ""; *move; move++) {
        Bits cell = *move >= '0' && *move <= '6' ? possible_cells(taken) & column(*move - '0') : 0;
        if (!cell || (cell & winning_cells(own, taken))) {
            fprintf(stderr, "%s: no game, or one that is over\n", game);
            return 0;
        }
        own ^= taken; /* the other's */
        taken |= cell;
    }
    uint64_t before = nodes;
    char letters[COLUMNS + 1] = "";
    for (int x = 0; x < COLUMNS; x++) {
        Bits cell = possible_cells(taken) & column(x);
        if (!cell)
            letters[x] = '.';
        else if (cell & winning_cells(own, taken))
            letters[x] = 'W';
        else
            letters[x] = "WDL"[solved(own ^ taken, taken | cell) + 1]; /* what the other one loses */
    }
    printf("%s %s %llu\n", game, letters, (unsigned long long)(nodes - before));
    fflush(stdout);
    return 1;
}

int main(int count, char **arguments)
{
    int bits = count > 1 ? atoi(arguments[1]) : 24;
    if (bits < 10 || bits > 32) {
        fprintf(stderr, "usage: connect_four_solver [BITS], of the number of buckets of 16 bytes: 10 to 32\n");
        return 2;
    }
    mask_of_table = ((Bits)1 << bits) - 1;
    table = calloc(mask_of_table + 1, sizeof *table);
    if (!table) {
        fprintf(stderr, "no memory for the table\n");
        return 2;
    }
    char game[CELLS + 2];
    while (scanf("%43s", game) == 1)
        if (!solve_moves(game)) return 1;
    return 0;
}
