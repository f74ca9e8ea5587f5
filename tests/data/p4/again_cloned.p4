// What asks for another pass of a packet asks for none of its clones: ingress resubmits and clones, egress clones and recirculates.
#include <core.p4>
#include <v1model.p4>

header shim_t { bit<8> what; bit<8> passes; }
struct headers { shim_t shim; }
struct metadata { @field_list(1) bit<8> passes; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.shim); transition accept; }
}
control Verify(inout headers hdr, inout metadata meta) { apply { } }
control In(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        meta.passes = meta.passes + 1;
        standard.egress_spec = 2;
        if (hdr.shim.what == 1 && meta.passes == 1) {
            clone(CloneType.I2E, 5);
            resubmit_preserving_field_list(1);
        }
    }
}
control Out(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        // The second condition holds for nothing: there is no port 400.
        if ((hdr.shim.what == 2 && meta.passes == 1 && standard.instance_type == 0) || standard.egress_port == 400) {
            clone(CloneType.E2E, 5);
            recirculate_preserving_field_list(1);
        }
        hdr.shim.passes = hdr.shim.passes + 1;
    }
}
control Sum(inout headers hdr, inout metadata meta) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr.shim); } }

V1Switch(Parse(), Verify(), In(), Out(), Sum(), Deparse()) main;
