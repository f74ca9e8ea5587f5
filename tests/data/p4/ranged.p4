// Loops whose turns are counted when a packet runs: over a range, and with a body that counts too.
#include <core.p4>
#include <v1model.p4>

header numbers_t {
    bit<8> n;
    bit<8> steps;
    bit<8> range;
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

control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    bit<8> k = 2;
    apply {
        std.egress_spec = 2;
        // The body moves on too.
        for (bit<8> i = 0; i < 8; i = i + 1) {
            i = i + 1;
            hdr.h.steps = hdr.h.steps + 1;
        }
        for (bit<8> i in k..hdr.h.n) {
            hdr.h.range = hdr.h.range + 1;
        }
        for (bit<8> i in 3..1) {
            hdr.h.range = 0xff;
        }
    }
}
control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
