// A calculator: the packet says what to do with two numbers, and comes back with the result.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }
header calc_t { bit<8> p; bit<8> four; bit<8> ver; bit<8> op; bit<32> operand_a; bit<32> operand_b; bit<32> res; }
struct metadata { }
struct headers { ethernet_t ethernet; calc_t calc; }

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) { 0x1234: check; default: accept; }
    }
    state check {
        transition select(packet.lookahead<calc_t>().p, packet.lookahead<calc_t>().four, packet.lookahead<calc_t>().ver) {
            (0x50, 0x34, 0x01): parse_calc;
            default: accept;
        }
    }
    state parse_calc { packet.extract(hdr.calc); transition accept; }
}
control nothing(inout headers hdr, inout metadata meta) { apply { } }
control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    action send_back(bit<32> result) {
        hdr.calc.res = result;
        bit<48> tmp = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = hdr.ethernet.srcAddr;
        hdr.ethernet.srcAddr = tmp;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }
    action operation_add() { send_back(hdr.calc.operand_a + hdr.calc.operand_b); }
    action operation_sub() { send_back(hdr.calc.operand_a - hdr.calc.operand_b); }
    action operation_and() { send_back(hdr.calc.operand_a & hdr.calc.operand_b); }
    action operation_or() { send_back(hdr.calc.operand_a | hdr.calc.operand_b); }
    action operation_xor() { send_back(hdr.calc.operand_a ^ hdr.calc.operand_b); }
    action operation_drop() { mark_to_drop(standard_metadata); }
    table calculate {
        key = { hdr.calc.op: exact; }
        actions = { operation_add; operation_sub; operation_and; operation_or; operation_xor; operation_drop; }
        const default_action = operation_drop();
        const entries = {
            0x2b: operation_add();
            0x2d: operation_sub();
            0x26: operation_and();
            0x7c: operation_or();
            0x5e: operation_xor();
        }
    }
    apply { if (hdr.calc.isValid()) { calculate.apply(); } else { operation_drop(); } }
}
control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control MyDeparser(packet_out packet, in headers hdr) { apply { packet.emit(hdr.ethernet); packet.emit(hdr.calc); } }
V1Switch(MyParser(), nothing(), MyIngress(), MyEgress(), nothing(), MyDeparser()) main;
