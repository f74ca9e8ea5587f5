// Loops that count with one variable, and do other things in their heads and updates; and loops in each other.
#include <core.p4>
#include <v1model.p4>

header numbers_t {
    bit<8>  a;
    bit<8>  b;
    bit<8>  c;
    bit<8>  t;
    bit<8>  p;
    bit<8>  q;
    bit<8>  x;
    bit<8>  y;
    bit<16> r;
    bit<16> s;
}
struct headers_t { numbers_t h; }
struct none_t { }

parser Parse(packet_in packet, out headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        for (bit<8> i = 0, bit<8> v = hdr.h.a; i < 3; i = i + 1, v = v + 1) {
            hdr.h.p = hdr.h.p + v;
        }
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout none_t meta) { apply { } }

control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        for (bit<16> i = 0, bit<16> j = (bit<16>)hdr.h.a; i < 300; i = i + 1, j = j + 2) {
            hdr.h.r = j;
        }
        for (bit<16> i = 0; i < 400; hdr.h.s = hdr.h.s + 1, i = i + 1) { }
        for (bit<16> i = 0, hdr.h.b = 3; i < 300; i = i + 1) {
            hdr.h.b = hdr.h.b + 1;
        }
        for (bit<16> i = 0, bit<16> latest = 0; i < 300; i = i + 1) {
            latest = (bit<16>)hdr.h.a;
            if (i == 299) {
                hdr.h.s = hdr.h.s + latest;
            }
        }
        for (bit<8> i = 0, bit<8> k = hdr.h.c; i < 10; k = k + 1, i = i + 1) {
            if (i == 2) {
                continue;
            }
            if (i == hdr.h.a) {
                break;
            }
            hdr.h.t = k;
        }
        // 1,024 copies of the inner body.
        for (bit<8> i = 0; i < hdr.h.x; i = i + 1) {
            for (bit<8> k in hdr.h.y .. 3) {
                if (k == 2) {
                    break;
                }
                hdr.h.q = hdr.h.q + 1;
            }
        }
    }
}
control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
