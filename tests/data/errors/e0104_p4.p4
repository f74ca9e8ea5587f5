// A mistyped name in an argument: what is wrong with the name is the one error of its line.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { ethernet_t ethernet; }
struct metadata { bit<8> number; }

void fill(out bit<8> x) { x = 1; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethermet); transition accept; }
}
control Nothing(inout headers hdr, inout metadata meta) { apply { } }
control In(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        fill(3);
        fill(meta.numbr);
    }
}
control Out(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Nothing(), In(), Out(), Nothing(), Deparse()) main;
