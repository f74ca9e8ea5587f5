// Headers with a varbit and with a field over 128 bits, compared, copied and hashed: where one is never valid in this program, and where
// the number of an element is computed.
#include <core.p4>
#include <v1model.p4>

header which_t { bit<8> i; bit<8> j; }
header var_t { bit<8> len; varbit<128> d; }
header big_t { bit<192> k; }
header out_t { bit<16> same; bit<16> hashed; }
header_union any_t { var_t v; big_t b; }
struct inner_t { var_t v; bit<8> k; }
struct headers { which_t h; var_t v; var_t absent; big_t[3] s; big_t[3] none; any_t u; out_t o; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.v, (bit<32>) packet.lookahead<bit<8>>() * 8);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    bit<16> same = 0;
    inner_t unset;
    action mark(in bool is_same, in bit<16> bit_of) {
        if (is_same) { same = same | bit_of; }
    }
    apply {
        std.egress_spec = 2;
        mark(hdr.v == hdr.absent, 1);
        mark(hdr.absent != hdr.v, 2);
        mark(hdr.u.v == hdr.v, 4);
        mark(hdr.u.b == hdr.s[0], 8);
        mark(unset.v == hdr.v, 16);
        mark(hdr.none == hdr.s, 32);
        mark(hdr.s[hdr.h.i] == hdr.s[0], 64);
        mark(hdr.s[hdr.h.i] == hdr.s[hdr.h.j], 128);
        mark(hdr.s[1] != hdr.s[hdr.h.j], 256);
        mark(hdr.s[hdr.h.i] == hdr.none[1], 512);
        mark(hdr.absent == hdr.u.v, 1024);
        hdr.o.setValid();
        hash(hdr.o.hashed, HashAlgorithm.crc16, (bit<16>) 0, { hdr.absent.d, hdr.h.i }, 32w0x10000);
        if (hdr.h.i == 1) { hdr.s[hdr.h.j].k = hdr.s[hdr.h.i].k; }
        hdr.o.same = same;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.o); packet.emit(hdr.s); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
