// Metadata of a clone that ingress makes: bmv2 parses the packet again, and then copies the fields of the list. That of a clone of egress is
// the list alone.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> parsed; bit<8> changed; bit<8> some; bit<8> listed; bit<8> set; }
struct headers { kind_t h; }
struct meta_t {
    bit<8> parsed;
    bit<8> changed;
    bit<8> some;
    @field_list(1) bit<8> listed;
    bit<8> set;
}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        meta.parsed = hdr.h.parsed + 1;
        meta.changed = hdr.h.changed + 1;
        meta.listed = hdr.h.listed + 1;
        transition select(hdr.h.kind) { 2: more; default: accept; }
    }
    // On other ways it is 0.
    state more { meta.some = 0x50; transition accept; }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        meta.changed = meta.changed + 0x10;
        meta.some = meta.some + 0x10;
        meta.listed = meta.listed + 0x10;
        meta.set = 0x10;
        if (hdr.h.kind == 1 || hdr.h.kind == 2) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        else if (hdr.h.kind == 3) { clone(CloneType.I2E, 5); }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.parsed = meta.parsed;
        hdr.h.changed = meta.changed;
        hdr.h.some = meta.some;
        hdr.h.listed = meta.listed;
        hdr.h.set = meta.set;
        if (hdr.h.kind == 4 && std.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
    }
}
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
