// `lookahead` as a statement: what it reads is not used, and a packet that ends before it is an error of the parser.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> a; }
struct pair_t { bit<8> one; bit<16> two; }
struct headers { byte_t h; byte_t failed; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            1: one;
            2: three;
            3: whole;
            default: accept;
        }
    }
    state one { packet.lookahead<bit<8>>(); transition accept; }
    state three { packet.lookahead<pair_t>(); transition accept; }
    state whole { packet.lookahead<byte_t>(); transition accept; }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (std.parser_error == error.PacketTooShort) {
            hdr.failed.setValid();
            hdr.failed.a = 0xee;
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.failed); packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
