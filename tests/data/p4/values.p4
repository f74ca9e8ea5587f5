// Values: defaults by `...`, parts of constants, signed ranges, type parameters of controls and parsers, elements that a loop copies, macros
// that join words, packets that enter again.
#include <core.p4>
#include <v1model.p4>

#define JOIN(a, b) a ## b
#define FIELD(n) JOIN(val, n)
#if (1 << 3) / 2 == 4 && 7 % 4 == 3 && ~0 != 0 && (2 > 1 ? 16 >> 2 : 0) == 4
#define STEP 3
#endif

@pragma this is about the rest of its line ( only
const bit<8> PLAIN = STEP;
const int LARGE = 0x3a5c;
const bit<8> SLICED = LARGE[11:4] ^ (-1)[7:0] ^ LARGE[8+:4] ++ 4w0;

// Long without being nested.
#define TEN(x) x + x + x + x + x + x + x + x + x + x
#define HUNDRED(x) TEN(x) + TEN(x) + TEN(x) + TEN(x) + TEN(x) + TEN(x) + TEN(x) + TEN(x) + TEN(x) + TEN(x)

header kind_t { bit<8> kind; int<8> s; bit<8> value; bit<8> other; }
header item_t { bit<8> v; }
header pair_t { bit<8> v; bit<8> w; }
header_union either_t { item_t one; pair_t two; }

struct inner_t { bit<8> p; bit<16> q; item_t h; }
struct one_t { bit<8> only; }
const inner_t WHOLE = { 8w4, 16w0x0102, {#} };
const tuple<bit<8>, bit<8>> TWO = { 5, 6 };
const bit<8> PART = WHOLE.p + TWO[1] + (bit<8>) WHOLE.q[15:8];

struct headers { kind_t h; item_t[3] items; either_t[2] either; }
struct meta_t { bit<8> m; }

parser Take<T>(packet_in packet, out T taken)(bit<8> plus) {
    state start { packet.extract(taken); transition accept; }
}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Take<item_t>(1) item;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind, hdr.h.s) {
            (1, -2 .. 2): near;
            (1, -20 .. -10): far;
            (2, _): items;
            (3, _): unions;
            default: accept;
        }
    }
    state near { hdr.h.other = 1; transition accept; }
    state far { hdr.h.other = 2; transition accept; }
    state items {
        item.apply(packet, hdr.items[0]);
        item.apply(packet, hdr.items[1]);
        transition accept;
    }
    state unions {
        packet.extract(hdr.either.next.one);
        packet.extract(hdr.either.next.two);
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

bit<8> next(inout bit<8> x) { x = x + 1; return x; }

control Set<T>(inout T to, in T from) { apply { to = from; } }
control Fill<T>(inout T to)(T with) { apply { to = with; } }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Set<bit<8>>() set;
    Fill<bit<16>>(0x0708) fill;
    action seen(bit<8> where) { hdr.h.value = where; }
    table signed {
        key = { hdr.h.s: range; }
        actions = { seen; NoAction; }
        size = 2;
        const default_action = NoAction();
        const entries = { -3 .. 3: seen(1); 4 .. 10: seen(2); }
    }
    apply {
        sm.egress_spec = 2;
        if (hdr.h.kind == 0) {
            inner_t none = ...;
            inner_t some = { p = 9, ... };
            bit<16> wide = none.q;
            set.apply(hdr.h.FIELD(ue), some.p + none.p + PART + PLAIN);
            fill.apply(wide);
            one_t one = { wide[7:0] };
            hdr.h.other = (bit<8>) one;
            if (some.h.isValid() || none.h.isValid()) { hdr.h.s = 1; }
        } else if (hdr.h.kind == 1) {
            for (int<8> i in -2 .. 1) { hdr.h.value = hdr.h.value + 1; hdr.h.s = hdr.h.s + i; }
        } else if (hdr.h.kind == 2) {
            for (item_t one in hdr.items) {
                hdr.items[1].v = hdr.items[1].v + 1;
                one.v = one.v + 1;
                hdr.h.value = hdr.h.value + one.v;
            }
            if (hdr.h.s == 1) { hdr.items.pop_front(5); }
        } else if (hdr.h.kind == 3) {
            if (hdr.h.s == 0) { hdr.either.pop_front(1); } else { hdr.either.push_front(1); }
        } else if (hdr.h.kind == 4) {
            mark_to_drop();
        } else if (hdr.h.kind == 7) {
            signed.apply();
        } else if (hdr.h.kind == 8) {
            hash(hdr.h.value, HashAlgorithm.identity, 8w0, { hdr.h.other }, next(hdr.h.other));
        } else if (hdr.h.kind == 9) {
            hdr.h.value = SLICED;
            hdr.h.other = HUNDRED(hdr.h.other) + HUNDRED(hdr.h.other) + HUNDRED(hdr.h.other) - 1;
        }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.kind == 5) { recirculate_preserving_field_list(0); hdr.h.kind = 6; }
        else if (hdr.h.kind == 6) { hdr.h.value = (bit<8>) sm.instance_type + 1; }
    }
}

control D(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.h); packet.emit(hdr.items); packet.emit(hdr.either); }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
