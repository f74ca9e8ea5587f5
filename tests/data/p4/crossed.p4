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
// It has a table, so it is one block at both places where it is applied.
control Adds(in item_t item, inout bit<8> sum)(bit<8> key, bit<8> data) {
    action add(bit<8> more) { sum = sum + item.a + more; }
    table added {
        key = { item.a: ternary; }
        actions = { add; }
        const default_action = add(0);
        const entries = { key: add(data + 1); key + 1 &&& 0xff: add(data); }
    }
    apply { added.apply(); }
}

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Leaves() leaves;
    Adds(7, 0x20) adds;
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
            default: { noted.apply(); }
        }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { if (hdr.kind.kind == 4) { hdr.kind.sum = meta.cells[hdr.kind.at]; } }
}
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
