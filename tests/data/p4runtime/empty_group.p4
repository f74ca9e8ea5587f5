// A table whose entries name groups: one without members sends packets to port 2, though a miss drops them.
#include <core.p4>
#include <psa.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
struct none_t { }

parser IngressParse(packet_in packet, out headers_t hdr, inout none_t meta, in psa_ingress_parser_input_metadata_t istd,
                    in none_t resubmitted, in none_t recirculated) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control In(inout headers_t hdr, inout none_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    ActionSelector(PSA_HashAlgorithm_t.CRC32, 64, 16) ways;
    action leave(bit<32> port) { ostd.drop = false; ostd.egress_port = (PortId_t) port; }
    action stop() { ostd.drop = true; }
    table chosen {
        key = { hdr.ethernet.dst: exact; hdr.ethernet.src: selector; }
        actions = { leave; stop; }
        default_action = stop();
        psa_implementation = ways;
        psa_empty_group_action = leave(2);
    }
    apply { chosen.apply(); }
}
control InDeparse(packet_out packet, out none_t cloned, out none_t resubmitted, out none_t normal, inout headers_t hdr,
                  in none_t meta, in psa_ingress_output_metadata_t istd) {
    apply { packet.emit(hdr.ethernet); }
}
parser EgressParse(packet_in packet, out headers_t hdr, inout none_t meta, in psa_egress_parser_input_metadata_t istd,
                   in none_t normal, in none_t cloned, in none_t cloned_again) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control Out(inout headers_t hdr, inout none_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply { }
}
control OutDeparse(packet_out packet, out none_t cloned, out none_t recirculated, inout headers_t hdr, in none_t meta,
                   in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr.ethernet); }
}

IngressPipeline(IngressParse(), In(), InDeparse()) ingress;
EgressPipeline(EgressParse(), Out(), OutDeparse()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
