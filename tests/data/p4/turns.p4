// Loops that end early, and division by constants.
#include <core.p4>
#include <v1model.p4>

header numbers_t {
    bit<8>  a;
    bit<8>  evens;
    bit<8>  some;
    bit<8>  root;
    bit<8>  last;
    bit<16> c;
    bit<16> tenth;
    bit<16> dozens;
}
struct headers_t { numbers_t n; }
struct none_t { }

bit<8> root_of(in bit<8> x) {
    for (bit<8> i in 1..15) {
        if (i * i >= x) {
            return i;
        }
    }
    return 16;
}

parser Parse(packet_in packet, out headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.n);
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout none_t meta) { apply { } }
control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    bit<8> i;
    apply {
        std.egress_spec = 2;
        for (bit<8> n = 0; n < 10; n = n + 1) {
            if (n == hdr.n.a) {
                break;
            }
            if (n[0:0] == 1) {
                continue;
            }
            hdr.n.evens = hdr.n.evens + n;
        }
        for (bit<8> n in 1..4) {
            if (n == 3) {
                continue;
            }
            hdr.n.some = hdr.n.some + n;
        }
        for (i = 0; i < 20; i = i + 3) {
            if (i > hdr.n.a) {
                break;
            }
        }
        hdr.n.last = i;
        hdr.n.root = root_of(hdr.n.a);
        hdr.n.tenth = hdr.n.c / 10;
        hdr.n.dozens = hdr.n.c / 12;
    }
}
control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.n); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
