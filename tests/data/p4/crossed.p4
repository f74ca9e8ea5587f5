// Values that are made of the place that they go to, and places with computed indices that a control that exits writes.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> at; bit<8> sum; bit<8> seen; }
header item_t { bit<8> a; }
header short_t { bit<8> v; }
header long_t { bit<16> v; }
header_union either_t { short_t short; long_t long; }
struct headers { kind_t kind; item_t[3] items; either_t either; }
struct meta_t { bit<8>[2] cells; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.kind);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.either.short);
        transition select(hdr.kind.kind, hdr.kind.at) {
            (8, 1 .. 2): seen;
            (8, 3 &&& 3): accept;
            (8, 1 .. 2): reject;
            (8, 3 &&& 3): reject;
            (8, _): accept;
            (8, _): reject;
            (_, _): accept;
            default: reject;
        }
    }
    state seen {
        hdr.kind.sum = 1;
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }

control Leaves(inout bit<8> value, in bit<8> at) {
    apply {
        value = value + 1;
        if (at > 0) { exit; }
        value = 0xee;
    }
}
// The index of the second place is the first, which it changes.
control Moves(inout bit<8> at, inout bit<8> value) {
    apply {
        at = 0;
        value = value + 1;
        if (value == 0x0c) { exit; }
    }
}
// It has a table, so it is one block at both places where it is applied.
control Adds(in item_t item, inout bit<8> sum)(bit<8> key, bit<8> data) {
    action add(bit<8> more) { sum = sum + item.a + more; }
    table added {
        key = { item.a: ternary; }
        actions = { add; }
        const default_action = add(0);
        const entries = { key: add(data + 1); key + 1 &&& 0xff: add(data); }
    }
    apply {
        added.apply();
        if (sum == 0x77) { exit; }
    }
}

// The same, with an item that it makes.
control Clears(out item_t item, in bit<8> value) {
    action set(bit<8> more) { item = { value + more }; }
    table cleared {
        key = { value: exact; }
        actions = { set; NoAction; }
        const default_action = NoAction;
        // Of two entries for one value the first one counts, and there is room for all.
        const entries = { 0x50: set(1); 0x50: set(2); 0x70: set(3); }
        size = 1;
    }
    apply { cleared.apply(); }
}

// A list of items, or a stack of them.
control Same(in item_t[2] pair, inout bit<8> seen) {
    action note() {
        if (pair == { { 0x0a }, { 0x0a } }) { seen = seen + 1; }
        if (pair == { { 0x0a }, { 0x0b } }) { seen = seen + 0x10; }
    }
    table noted {
        actions = { note; }
        const default_action = note;
    }
    apply { noted.apply(); }
}

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Leaves() leaves;
    Adds(7, 0x20) adds;
    Clears() clears;
    Same() same;
    Moves() moves;
    action note(in bit<8> value, bit<8> more) { hdr.kind.seen = value + more; }
    table noted {
        key = { hdr.kind.kind: exact; }
        actions = { note(hdr.kind.at == 1 ? hdr.items[1].a : 8w5); }
        const default_action = note(hdr.kind.at == 1 ? hdr.items[1].a : 8w5, 1);
        const entries = { 9: note((hdr.kind.at == 1 ? hdr.items[1].a : 8w5), 2); }
    }
    apply {
        switch (hdr.kind.kind) {
            1: { hdr.items = { hdr.items[1], hdr.items[0], { hdr.items[0].a + 1 } }; }
            2: { hdr.either.long = { hdr.either.short.v ++ hdr.kind.at }; }
            3: { leaves.apply(hdr.items[hdr.kind.at].a, hdr.kind.at); }
            4: {
                leaves.apply(meta.cells[hdr.kind.at], hdr.kind.at);
            }
            5: {
                adds.apply({ 7 }, hdr.kind.sum);
                adds.apply(hdr.items[1], hdr.kind.sum);
                adds.apply({ 8 }, hdr.kind.sum);
            }
            6: {
                adds.apply(hdr.items[0], hdr.items[1].a);
                adds.apply(hdr.items[0], hdr.kind.seen);
                hdr.kind.sum = 1;
            }
            7: {
                clears.apply(hdr.items[0], 0x50);
                clears.apply(hdr.items[hdr.kind.at], 0x60);
            }
            11: {
                item_t[2] two = { hdr.items[0], hdr.items[1] };
                same.apply({ hdr.items[0], hdr.items[0] }, hdr.kind.seen);
                same.apply(two, hdr.kind.seen);
                if (hdr.either == (either_t) {#}) { hdr.kind.seen = 0xff; }
            }
            12: { moves.apply(hdr.kind.at, hdr.items[hdr.kind.at].a); }
            default: { noted.apply(); }
        }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { if (hdr.kind.kind == 4) { hdr.kind.sum = meta.cells[hdr.kind.at]; } }
}
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
