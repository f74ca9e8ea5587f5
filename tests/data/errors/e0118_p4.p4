// Arguments with names: one that is given twice, and one that is missing.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { ethernet_t ethernet; }
struct metadata { bit<8> number; }

void fill(in bit<8> from, out bit<8> to) { to = from; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control Nothing(inout headers hdr, inout metadata meta) { apply { } }
control In(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        fill(to = meta.number, to = meta.number);
        fill(to = meta.number);
        fill(3);
    }
}
control Out(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Nothing(), In(), Out(), Nothing(), Deparse()) main;
