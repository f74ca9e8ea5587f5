// What the exercises share: Ethernet, IPv4, and the checksum of IPv4.
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;
typedef bit<48> mac_t;
typedef bit<32> ip_t;

header ethernet_t { mac_t dstAddr; mac_t srcAddr; bit<16> etherType; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<6> diffserv; bit<2> ecn; bit<16> totalLen; bit<16> identification; bit<3> flags; bit<13> fragOffset;
    bit<8> ttl; bit<8> protocol; bit<16> hdrChecksum; ip_t srcAddr; ip_t dstAddr;
}

#define FORWARDING \
    action drop() { mark_to_drop(standard_metadata); } \
    action ipv4_forward(mac_t dstAddr, port_t port) { \
        standard_metadata.egress_spec = port; \
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr; \
        hdr.ethernet.dstAddr = dstAddr; \
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1; \
    } \
    table ipv4_lpm { \
        key = { hdr.ipv4.dstAddr: lpm; } \
        actions = { ipv4_forward; drop; NoAction; } \
        size = 1024; \
        default_action = drop(); \
    }

#define IPV4_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.ecn, hdr.ipv4.totalLen, hdr.ipv4.identification, \
    hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr }

#define CHECKSUMS \
control MyVerifyChecksum(inout headers hdr, inout metadata meta) { apply { } } \
control MyComputeChecksum(inout headers hdr, inout metadata meta) { \
    apply { update_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.hdrChecksum, HashAlgorithm.csum16); } \
}

#define SWITCH \
V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
