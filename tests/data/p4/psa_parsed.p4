// Parsers of egress that are those of ingress and do more than to extract: egress parses, so each does it for its own packet.
#include <core.p4>
#include <bmv2/psa.p4>

header kind_t { bit<8> kind; bit<8> count; }
header item_t { bit<8> a; bit<8> b; }
struct headers { kind_t h; item_t made; item_t left; }
struct meta_t { }
struct none_t { }

parser InParse(packet_in packet, out headers hdr, inout meta_t meta, in psa_ingress_parser_input_metadata_t istd, in none_t again, in none_t round) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) { 1: counts; 2: makes; 3: skips; default: accept; }
    }
    state counts { hdr.h.count = hdr.h.count + 1; transition accept; }
    state makes { hdr.made.setValid(); hdr.made.a = 9; hdr.made.b = 8; transition accept; }
    state skips { packet.advance(8); packet.extract(hdr.left); transition accept; }
}
control In(inout headers hdr, inout meta_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply { send_to_port(ostd, (PortId_t) 2); }
}
control InDeparse(packet_out packet, out none_t clone, out none_t again, out none_t normal, inout headers hdr, in meta_t meta, in psa_ingress_output_metadata_t istd) {
    apply { packet.emit(hdr.h); packet.emit(hdr.made); packet.emit(hdr.left); }
}
parser OutParse(packet_in packet, out headers hdr, inout meta_t meta, in psa_egress_parser_input_metadata_t istd, in none_t normal, in none_t i2e, in none_t e2e) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) { 1: counts; 2: makes; 3: skips; default: accept; }
    }
    state counts { hdr.h.count = hdr.h.count + 1; transition accept; }
    state makes { hdr.made.setValid(); hdr.made.a = 9; hdr.made.b = 8; transition accept; }
    state skips { packet.advance(8); packet.extract(hdr.left); transition accept; }
}
control Out(inout headers hdr, inout meta_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply { }
}
control OutDeparse(packet_out packet, out none_t clone, out none_t round, inout headers hdr, in meta_t meta, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr.h); packet.emit(hdr.made); packet.emit(hdr.left); }
}

IngressPipeline(InParse(), In(), InDeparse()) ingress;
EgressPipeline(OutParse(), Out(), OutDeparse()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
