// Elements whose number is computed: of arrays, of stacks of unions, and of stacks in a parser. Errors that are values, headers without
// fields, a stack that is looked ahead at, ranges beside a value set.
#include <core.p4>
#include <v1model.p4>

error { Odd, Even }

enum bit<8> Lists { none = 0, kept = 1 }
const bit<8> ALSO = 2;

header kind_t {
    bit<8>    kind;
    bit<8>    at;
    bit<8>    port;
    bit<8>[4] cells;
}
header hop_t { bit<1> last; bit<15> port; }
header short_t { bit<8> value; }
header long_t { bit<8> count; varbit<64> more; }
header mark_t { }
header_union item_t { short_t small; long_t large; }
struct pair_t { bit<8> left; bit<8> right; }
struct key_t {
    bit<8> kind;
    bit<8> at;
}
struct headers_t {
    kind_t    kind;
    hop_t[3]  hops;
    mark_t    mark;
    item_t[3] items;
}
struct meta_t {
    @field_list(Lists.kept, ALSO) bit<8> kept;
    bit<8> found;
    pair_t[3] pairs;
}
struct looked_t { short_t[2] next; }

bit<8> several(in bit<8> at) {
    if (at == 1) { return 0x11; }
    if (at == 2) { return 0x22; }
    return 0x33;
}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<key_t>(4) known;
    bit<32> at;
    bit<8> left;
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind, hdr.kind.at) {
            known: found;
            (1, 1..6): hops;
            (2, 0..3): items;
            (3, _): checked;
            (4, _): looked;
            (5, _): marked;
            (8, _): returned;
            default: accept;
        }
    }
    state found { meta.found = 0xaa; transition accept; }
    state hops { at = 0; transition hop; }
    state hop {
        packet.extract(hdr.hops[at]);
        at = at + 1;
        hdr.hops[at - 1].port = hdr.hops[at - 1].port + 1;
        transition select(hdr.hops[at - 1].last) {
            1: accept;
            default: hop;
        }
    }
    state items { left = hdr.kind.at; transition item; }
    state item {
        transition select(left) {
            0: accept;
            default: one_item;
        }
    }
    state one_item {
        left = left - 1;
        transition select(packet.lookahead<bit<8>>()) {
            0 .. 8: large;
            default: small;
        }
    }
    state large {
        packet.extract(hdr.items.next.large, (bit<32>) (8 * (bit<16>) packet.lookahead<bit<8>>()));
        transition item;
    }
    state small { packet.extract(hdr.items.next.small); transition item; }
    state checked {
        error which = error.NoError;
        if (hdr.kind.at[0:0] == 1) { which = error.Odd; } else { which = error.Even; }
        verify(hdr.kind.at > 3, which);
        transition accept;
    }
    state looked {
        looked_t next = packet.lookahead<looked_t>();
        meta.found = next.next[1].value;
        transition accept;
    }
    state returned { meta.found = several(hdr.kind.at); transition accept; }
    state marked {
        packet.extract(hdr.mark);
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout meta_t meta) { apply { } }

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    bit<8>[4] own = { 10, 20, 30, 40 };
    action add(inout bit<8> value, in bit<8> by) { value = value + by; }
    apply {
        std.egress_spec = 2;
        if (std.parser_error == error.Odd) {
            hdr.kind.cells[0] = 0x0d;
        } else if (std.parser_error == error.Even) {
            hdr.kind.cells[0] = 0xe0;
        }
        if (hdr.mark.isValid()) { hdr.kind.cells[1] = 0x33; }
        for (hop_t hop in hdr.hops) {
            if (hop.isValid()) { hdr.kind.cells[0] = hdr.kind.cells[0] + 1; }
        }
        if (hdr.kind.kind == 6) {
            bit<2> at = hdr.kind.at[1:0];
            hdr.kind.cells[at] = own[at] + 1;
            hdr.kind.cells[at + 1] += 2;
            hdr.kind.cells[at + 2][7:4] = 0xf;
            add(hdr.kind.cells[at + 3], hdr.kind.cells[at]);
            meta.pairs[1].left = 5;
            meta.pairs[hdr.kind.port[1:0]].right = 6;
            hdr.kind.port = meta.pairs[1].left ++ 8w0 == 16w0x500 && meta.pairs[1].right == 6 ? 8w1 : 0;
            for (bit<8> cell in own) { meta.found = meta.found + cell; }
        }
        if (hdr.kind.kind == 2) {
            bit<8> at = hdr.kind.port;
            if (hdr.items[at].small.isValid()) {
                hdr.items[at].small.value = hdr.items[at].small.value ^ 0xff;
            } else if (at == 2) {
                hdr.items[at].small.setValid();
                hdr.items[at].small.value = 0x77;
            } else {
                hdr.items[at] = hdr.items[0];
            }
        }
        hdr.kind.cells[3] = hdr.kind.cells[3] + meta.found;
    }
}
control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
