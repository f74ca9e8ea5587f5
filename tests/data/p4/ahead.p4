// Arguments of sub-parsers that look ahead: each is what it was in front of the call, whatever the sub-parser extracts.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header item_t { bit<8> v; }
struct pair_t { bit<8> one; bit<8> two; }
struct headers { kind_t h; item_t[3] items; kind_t next; }
struct meta_t { bit<8> sum; bit<8> pair; bit<8> head; }

parser Sub(packet_in packet, in bit<8> ahead, in pair_t pair, in item_t head, out bit<8> sum, inout bit<8> seen,
           out bit<8> both, out bit<8> first, out kind_t next) {
    state start {
        packet.extract(next);
        sum = ahead + 1;
        both = pair.one + pair.two;
        first = head.v;
        seen = seen + 1;
        transition accept;
    }
}
parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    Sub() sub;
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        // The element by the byte in front of the call, which becomes another one behind it.
        sub.apply(packet, packet.lookahead<bit<8>>(), packet.lookahead<pair_t>(), packet.lookahead<item_t>(), meta.sum,
                  hdr.items[packet.lookahead<bit<8>>()].v, meta.pair, meta.head, hdr.next);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.a = meta.sum;
        hdr.h.b = meta.pair;
        hdr.h.c = meta.head;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
