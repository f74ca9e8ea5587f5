// Checksums whose header is not there: bmv2 does not verify them, whatever the condition is.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> wrong; }
header sum_t { bit<8> value; bit<8> sum; }
struct headers { kind_t h; sum_t[2] sums; }
struct meta_t { bit<8> sum; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        meta.sum = hdr.h.wrong;
        transition select(hdr.h.kind) { 1: one; 2: two; default: accept; }
    }
    state one { packet.extract(hdr.sums.next); transition accept; }
    state two { packet.extract(hdr.sums.next); transition one; }
}
control V(inout headers hdr, inout meta_t meta) {
    apply {
        verify_checksum(true, { hdr.h.kind, hdr.sums[0].value, 8w9, 8w5 }, hdr.sums[0].sum, HashAlgorithm.xor16);
        verify_checksum(hdr.h.kind != 3, { hdr.h.kind, hdr.sums[1].value, 8w9, 8w5 }, hdr.sums[1].sum, HashAlgorithm.xor16);
        // Metadata is always there.
        verify_checksum(hdr.h.kind == 4, { 8w0, hdr.h.kind }, meta.sum, HashAlgorithm.xor16);
    }
}
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.wrong = (bit<8>) std.checksum_error;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control U(inout headers hdr, inout meta_t meta) {
    apply { update_checksum(true, { hdr.h.kind, hdr.h.wrong }, hdr.sums[1].sum, HashAlgorithm.xor16); }
}
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
