// What is evaluated when: lists of loops, arguments, keys, sides of assignments; what is copied in and out of calls.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header item_t { bit<8> v; }
struct pair_t { bit<8> left; bit<8> right; }
struct two_t { item_t p; item_t q; }
struct headers_t { kind_t h; item_t[3] items; }
struct meta_t { bit<8> m; pair_t p; bit<8>[3] cells; }

bit<8> least(in bit<8> x, in bit<8> y) {
    if (x < y) { return x; }
    return y;
}

// Changes its argument, and gives what it was before.
bit<8> bump(inout bit<8> x) {
    x = x + 1;
    return x - 1;
}
bit<8> bumped(inout bit<8> x, in bit<8> by) {
    x = x + by;
    return x;
}
bool below(inout bit<8> x, in bit<8> limit) {
    x = x + 1;
    return x < limit;
}
void split(inout bit<8> x, out bit<8> y, in bit<8> z) {
    x = z;
    y = x + 1;
}
void both(inout bit<8> x, inout bit<8> y) {
    x = x + 1;
    y = y + 16;
}
bit<8> doubled(inout item_t of) {
    of.v = of.v + of.v;
    return of.v;
}
bit<8> wrote(out bit<8> x) {
    x = 5;
    return x + 1;
}
pair_t swapped(in pair_t of) { return { of.right, of.left }; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition select(hdr.h.kind) {
            40: listed;
            41: called;
            default: accept;
        }
    }
    state listed {
        for (bit<8> x in (list<bit<8>>) { hdr.h.a, hdr.h.b }) {
            hdr.h.a = 1;
            hdr.h.b = 1;
            hdr.h.c = hdr.h.c + x;
        }
        transition accept;
    }
    state called {
        hdr.h.a = 5;
        hdr.h.b = least(hdr.h.a, 7);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }

control Add(inout bit<8> x, inout bit<8> y, in bit<8> by) {
    action add() { x = x + by; y = y + x; }
    table t { actions = { add; } const default_action = add(); }
    apply { t.apply(); }
}
control Fresh(out item_t made, in bit<8> v) {
    action fill() { if (v > 4) { made.setValid(); made.v = v; } }
    table t { actions = { fill; } const default_action = fill(); }
    apply { t.apply(); }
}
control Takes(in pair_t of, inout bit<8> x) {
    action add() { x = x + of.left + of.right; }
    table t { actions = { add; } const default_action = add(); }
    apply { t.apply(); }
}
control Counted(inout bit<8> x) {
    register<bit<8>>(1) seen;
    apply {
        bit<8> so_far;
        seen.read(so_far, 0);
        so_far = so_far + 1;
        seen.write(0, so_far);
        x = x + so_far;
    }
}

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    Add() adds;
    Fresh() fresh;
    Takes() takes;
    item_t one;
    item_t two;
    bit<8> i;
    register<bit<8>>(16) cells;

    action alias(inout bit<8> x) {
        meta.m = 5;
        x = x + 1;
        hdr.h.c = meta.m;
    }
    action deeper(inout bit<8> x) { alias(hdr.h.d); x = x + 2; }
    action reads(in pair_t of) { meta.p.left = 9; hdr.h.c = of.left; }
    action far(inout bit<8> x) { meta.m = 3; deeper(x); }
    action indexed(inout item_t of) { i = 2; of.v = of.v + 1; }
    action leaves(inout bit<8> x) { meta.m = 7; x = 4; exit; }
    action set(inout bit<8> x, bit<8> to) { hdr.h.b = hdr.h.b + 1; x = to + x; }
    table sets {
        key = { hdr.h.a: exact; }
        actions = { set(hdr.h.b); NoAction; }
        const default_action = NoAction();
        const entries = { 1: set(hdr.h.b, 10); }
    }
    action seen(bit<8> what) { hdr.h.d = what; }
    table keyed {
        key = { hdr.h.a: exact; bump(hdr.h.a): exact @name("bumped"); hdr.h.a: exact @name("then"); }
        actions = { seen; NoAction; }
        const default_action = NoAction();
        const entries = { (1, 1, 2): seen(1); (2, 1, 2): seen(2); }
    }
    table exits {
        key = { hdr.h.a: exact; }
        actions = { leaves(meta.m); NoAction; }
        const default_action = NoAction();
        const entries = { 1: leaves(meta.m); }
    }
    apply {
        std.egress_spec = 2;
        i = 0;
        meta.m = 1;
        if (hdr.h.kind == 1) {
            for (bit<8> x in (list<bit<8>>) { hdr.h.a, hdr.h.b, bump(hdr.h.a), hdr.h.a }) {
                hdr.h.a = 0x10;
                hdr.h.b = 0x20;
                hdr.h.c = hdr.h.c + x;
            }
        } else if (hdr.h.kind == 2) {
            // A call in a right side and one in a condition change what the list was made of.
            for (bit<8> x in (list<bit<8>>) { hdr.h.a, hdr.h.b }) {
                hdr.h.d = bump(hdr.h.a);
                if (bump(hdr.h.b) == 0xff) { hdr.h.d = 0; }
                hdr.h.c = hdr.h.c + x;
            }
        } else if (hdr.h.kind == 3) {
            // The variable is written by a call in a right side; the list is not.
            for (bit<8> x in (list<bit<8>>) { hdr.h.a, hdr.h.b }) {
                hdr.h.d = hdr.h.d + bump(x);
                hdr.h.c = hdr.h.c + x;
            }
        } else if (hdr.h.kind == 4) {
            for (item_t x in hdr.items) {
                hdr.items.pop_front(1);
                hdr.h.c = hdr.h.c + x.v;
            }
        } else if (hdr.h.kind == 5) {
            meta.cells[0] = 1;
            meta.cells[1] = 2;
            meta.cells[2] = 4;
            for (bit<8> x in meta.cells) {
                meta.cells[1] = 9;
                meta.cells[2] = 9;
                hdr.h.c = hdr.h.c + x;
            }
        } else if (hdr.h.kind == 6) {
            for (bit<8> x in bump(hdr.h.a) .. hdr.h.a) { hdr.h.c = hdr.h.c + x; }
        } else if (hdr.h.kind == 7) {
            // 10.1.5: the value of the first argument is what it was before the second one.
            hdr.h.c = bumped(hdr.h.a, bump(hdr.h.a));
        } else if (hdr.h.kind == 8) {
            hdr.h.c = least(hdr.h.a, bump(hdr.h.a) + 1);
        } else if (hdr.h.kind == 9) {
            split(y = hdr.h.b, x = hdr.h.c, z = bump(hdr.h.c));
        } else if (hdr.h.kind == 10) {
            both(hdr.h.a, hdr.h.a);
        } else if (hdr.h.kind == 11) {
            alias(meta.m);
            hdr.h.d = meta.m;
        } else if (hdr.h.kind == 12) {
            far(meta.m);
            hdr.h.a = meta.m;
        } else if (hdr.h.kind == 13) {
            meta.p = { 1, 2 };
            reads(meta.p);
            hdr.h.d = meta.p.left;
        } else if (hdr.h.kind == 14) {
            indexed(hdr.items[i]);
            hdr.h.d = i;
        } else if (hdr.h.kind == 15) {
            i = 1;
            hdr.items[i].v = bump(i);
            hdr.h.d = i;
        } else if (hdr.h.kind == 16) {
            i = 1;
            hdr.h.c = bumped(hdr.items[i].v, bump(i));
        } else if (hdr.h.kind == 17) {
            hdr.h.a += bump(hdr.h.a);
            hdr.h.b -= hdr.h.a;
        } else if (hdr.h.kind == 18) {
            hdr.h.c = hdr.h.a + bump(hdr.h.a) + hdr.h.a;
        } else if (hdr.h.kind == 19) {
            meta.p = { hdr.h.a, bump(hdr.h.a) };
            meta.p = swapped(meta.p);
            hdr.h.c = meta.p.left;
            hdr.h.d = meta.p.right;
        } else if (hdr.h.kind == 20) {
            sets.apply();
        } else if (hdr.h.kind == 21) {
            keyed.apply();
        } else if (hdr.h.kind == 22) {
            meta.m = 2;
            exits.apply();
            hdr.h.d = 0xee;
        } else if (hdr.h.kind == 23) {
            adds.apply(hdr.h.a, hdr.h.b, 1);
            adds.apply(hdr.h.b, hdr.h.a, 2);
        } else if (hdr.h.kind == 24) {
            adds.apply(hdr.h.a, hdr.h.b, 1);
            adds.apply(hdr.h.c, hdr.h.d, bump(hdr.h.c));
        } else if (hdr.h.kind == 25) {
            fresh.apply(one, hdr.h.a);
            fresh.apply(one, hdr.h.b);
            fresh.apply(two, hdr.h.b);
            if (one.isValid()) { hdr.h.c = one.v; }
            if (two.isValid()) { hdr.h.d = two.v; }
        } else if (hdr.h.kind == 26) {
            for (bit<8> turn in 0 .. 2) { Counted.apply(hdr.h.c); }
        } else if (hdr.h.kind == 27) {
            one = hdr.items[0];
            if (one == hdr.items[1] && doubled(one) == one.v) { hdr.h.c = one.v; }
            hdr.h.d = one == hdr.items[1] ? 8w1 : 2;
        } else if (hdr.h.kind == 28) {
            i = 1;
            cells.write((bit<32>) i, 7);
            cells.write((bit<32>) i, bump(i));
            bit<8> read;
            cells.read(read, 1);
            hdr.h.c = read;
            cells.read(read, 2);
            hdr.h.d = read;
        } else if (hdr.h.kind == 29) {
            hash(hdr.h.c, HashAlgorithm.identity, hdr.h.a, { hdr.h.b }, bump(hdr.h.a) ++ 8w0);
        } else if (hdr.h.kind == 30) {
            hash(hdr.h.c, HashAlgorithm.identity, hdr.h.a, { hdr.h.b }, hdr.h.d);
        } else if (hdr.h.kind == 31) {
            switch (bump(hdr.h.a)) {
                1: { hdr.h.c = hdr.h.a; }
                2:
                3: { hdr.h.c = 0x30 + hdr.h.a; }
                default: { hdr.h.c = 0xff; }
            }
        } else if (hdr.h.kind == 32) {
            // Left to right: the second wins.
            split(hdr.h.a, hdr.h.a, 6);
        } else if (hdr.h.kind == 33) {
            hdr.h.c[i+:4] = (bit<4>) (bump(i) + 1);
        } else if (hdr.h.kind == 34) {
            for (i = 0; below(i, 4) && hdr.h.c < 9; i = i + 0) {
                // Of loops in each other there are fewer turns.
                for (bit<8> turn in (list<bit<8>>) { 1 }) { hdr.h.c = hdr.h.c + turn; }
            }
            hdr.h.d = i;
        } else if (hdr.h.kind == 38) {
            for (bit<8> turn in 1 .. 20) {
                for (item_t x in hdr.items) {
                    hdr.h.c = hdr.h.c + x.v;
                    x.v = turn;
                }
            }
        } else if (hdr.h.kind == 36) {
            one.setInvalid();
            hdr.h.c = wrote(one.v);
            hdr.h.d = one.isValid() ? 8w1 : 2;
        } else if (hdr.h.kind == 37) {
            takes.apply({ 1, 2 }, hdr.h.c);
            takes.apply({ hdr.h.a, 4 }, hdr.h.d);
        } else if (hdr.h.kind == 35) {
            two_t pair;
            pair.p = hdr.items[0];
            pair.q = hdr.items[1];
            pair = { pair.q, pair.p };
            hdr.items[0] = pair.p;
            hdr.items[1] = pair.q;
        }
    }
}
control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply { if (hdr.h.kind == 22) { hdr.h.d = meta.m; } }
}
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); packet.emit(hdr.items); } }

V1Switch(Parse(), Verify(), In(), Eg(), Compute(), Deparse()) main;
