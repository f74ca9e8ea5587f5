// Loops whose turns are counted when a packet runs.
#include <core.p4>
#include <v1model.p4>

header numbers_t {
    bit<8>  n;
    bit<8>  sum;
    bit<8>  bits;
    bit<16> wide;
    bit<8>  last;
}
struct headers_t { numbers_t h; }
struct none_t { }

parser Parse(packet_in packet, out headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout none_t meta) { apply { } }

// The first power of two that is at least x; 0 if there is none.
bit<8> power(in bit<8> x) {
    for (bit<8> p = 1; p != 0; p = p << 1) {
        if (p >= x) {
            return p;
        }
    }
    return 0;
}

control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    counter(300, CounterType.packets) turns;
    apply {
        std.egress_spec = 2;
        for (bit<8> i = 1; i <= hdr.h.n && i < 200; i = i + 1) {
            if (i == 3) {
                continue;
            }
            if (i == 9) {
                break;
            }
            hdr.h.sum = hdr.h.sum + i;
        }
        bit<16> left = hdr.h.wide;
        for (; left != 0; left = left & (left - 1)) {
            hdr.h.bits = hdr.h.bits + 1;
        }
        bit<8> i;
        bit<8> j;
        for (i = 0, j = 10; i < j && i < hdr.h.n; i = i + 1, j = j - 1) { }
        hdr.h.last = power(i);
        // 300 turns that are known: a call does not write what only the loop has.
        for (bit<16> turn = 0; turn < 300; turn = turn + 1) {
            turns.count((bit<32>)turn);
        }
        // More turns than there are: the packet is dropped.
        for (bit<16> w = 0; w < hdr.h.wide; w = w + 1) { }
    }
}
control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
