// What a parser does beside extracting: parts of fields that are written, locals that begin with what a function of branches gives.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; }
struct headers { h_t h; }
struct meta_t { bit<8> m; bit<4> n; }

bit<8> more(in bit<8> x) { if (x > 5) { return 1; } return 2; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    bit<8> first = more(9);
    bit<8> second = more(3);
    state start {
        packet.extract(hdr.h);
        hdr.h.b = more(hdr.h.a);
        hdr.h.b[7:4] = (bit<4>) (first + second);
        hdr.h.c[11:4][5:2] = hdr.h.a[3:0];
        meta.m[0:0] = 1;
        meta.m[7:7] = 1;
        transition select(hdr.h.a) { 0: start; default: accept; }
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 2; hdr.h.a = meta.m; }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
