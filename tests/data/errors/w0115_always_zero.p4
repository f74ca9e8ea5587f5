#include <v1model.p4>
header h_t { bit<16> a; bit<16> b; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition select(s.priority) { 1: accept; default: accept; } }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = s.egress_port + 1;
        h.h.a = (bit<16>) s.enq_qdepth + (bit<16>) s.packet_length;
        s.egress_port = 3;
        if (s.enq_qdepth > 5) { s.deq_timedelta = 1; h.h.a = (bit<16>) s.deq_timedelta; }
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply { h.h.b = (bit<16>) s.egress_spec + (bit<16>) s.egress_port + (bit<16>) s.qid; }
}
control D(packet_out p, in H h) { apply { p.emit(h.h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
