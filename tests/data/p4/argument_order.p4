// What stands first is evaluated first, and numbers that are wider than what takes them.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<64> at; bit<32> session; bit<8> a; bit<8> b; bit<8> c; bit<8> d; int<8> x; int<8> y; }
header one_t { bit<8> v; }
struct headers { h_t h; one_t[3] s; }
struct meta_t { bit<8> m; bit<16> w; }

bit<8> bump(inout bit<8> i) { i = i + 1; return i - 1; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        // A value that is kept across the states of the second operand.
        meta.m = (bit<8>) ((hdr.h.x |+| hdr.h.y) + (hdr.h.d == 1 ? (hdr.h.x |-| hdr.h.y) : hdr.h.y));
        meta.w = (bit<16>) ((int<16>) (hdr.h.x + hdr.h.y) + (hdr.h.d == 1 ? (int<16>) (hdr.h.x - hdr.h.y) : 1));
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(4) cells;
    apply {
        bit<8>[4] c = { 0, 0, 0, 0 };
        bit<8> i = 0;
        cells.write(0, 5);
        cells.write(1, 9);
        // The index of the target is that of before, the other one that of behind.
        cells.read(c[bump(i)], (bit<32>) i);
        hdr.h.a = c[0];
        i = 1;
        random(hdr.s[bump(i)].v, i, i);
        random(c[hdr.h.d], 8w3, 8w3);
        // A message is not logged, but its argument is evaluated.
        log_msg("{}", { bump(i) });
        hdr.h.c = c[1] + i - 3;
        // An index beyond 32 bits is outside.
        hdr.h.b = hdr.s[hdr.h.at].v;
        hdr.s[hdr.h.at].v = 0x77;
        clone(CloneType.I2E, hdr.h.session);
        hdr.h.d = meta.m;
        hdr.h.x = (int<8>) (bit<8>) meta.w;
        hdr.h.y = (int<8>) (bit<8>) (meta.w >> 8);
        sm.egress_spec = 2;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
