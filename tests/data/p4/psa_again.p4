// Packets that enter ingress again because an entry says so: the program names the path only.
#include <core.p4>
#include <psa.p4>

header note_t { bit<8> kind; bit<8> passes; }
struct empty_t { }
struct headers_t { note_t note; }

parser IP(packet_in packet, out headers_t hdr, inout empty_t meta, in psa_ingress_parser_input_metadata_t istd, in empty_t resubmitted, in empty_t recirculated) {
    state start { packet.extract(hdr.note); transition accept; }
}
control I(inout headers_t hdr, inout empty_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    action forward(PortId_t port) { send_to_port(ostd, port); }
    table ports { key = { hdr.note.kind: exact; } actions = { forward; NoAction; } const default_action = NoAction(); }
    apply {
        if (istd.packet_path == PSA_PacketPath_t.RECIRCULATE) { hdr.note.kind = hdr.note.kind + 16; }
        ports.apply();
        hdr.note.passes = hdr.note.passes + 1;
    }
}
control ID(packet_out packet, out empty_t cloned, out empty_t resubmitted, out empty_t normal, inout headers_t hdr, in empty_t meta, in psa_ingress_output_metadata_t ostd) {
    apply { packet.emit(hdr.note); }
}
parser EP(packet_in packet, out headers_t hdr, inout empty_t meta, in psa_egress_parser_input_metadata_t istd, in empty_t normal, in empty_t cloned_i, in empty_t cloned_e) {
    state start { packet.extract(hdr.note); transition accept; }
}
control E(inout headers_t hdr, inout empty_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) { apply { } }
control ED(packet_out packet, out empty_t cloned, out empty_t recirculated, inout headers_t hdr, in empty_t meta, in psa_egress_output_metadata_t ostd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr.note); }
}
IngressPipeline(IP(), I(), ID()) ingress;
EgressPipeline(EP(), E(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
