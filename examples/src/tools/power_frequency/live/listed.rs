//! Codes of the quantities on Intel's processors, by the manufacturer's lists.

// Written by .ci/event-tables from .ci/event-tables.csv: change that.

use super::choose::QUANTITIES;

/// Models of family 6, and the code of each of the [`QUANTITIES`]; 0 where the list has none.
pub(super) const LISTED: &[(&[u32], [u64; QUANTITIES.len()])] = &[
    // intel/SNB/events/sandybridge_core.json V19, SHA-256 4092a6980f93a163
    (&[42], [0x83d0, 0x0000, 0x0000, 0x01a2, 0x0000, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/JKT/events/Jaketown_core.json V24, SHA-256 b8de4b2351217124
    (&[45], [0x83d0, 0x0000, 0x0000, 0x01a2, 0x0000, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/IVB/events/ivybridge_core.json V24, SHA-256 5f17c7c1a916ee9b
    (&[58], [0x83d0, 0x0000, 0x0000, 0x01a2, 0x0000, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/IVT/events/ivytown_core.json V24, SHA-256 d4492c41356b28e8
    (&[62], [0x83d0, 0x0000, 0x0000, 0x01a2, 0x0000, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/HSW/events/haswell_core.json V36, SHA-256 dae228da86826e0e
    (&[60, 69, 70], [0x83d0, 0x3f24, 0xff24, 0x01a2, 0x0000, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/HSX/events/haswellx_core.json V29, SHA-256 2775325b691d2f0a
    (&[63], [0x83d0, 0x3f24, 0xff24, 0x01a2, 0x0000, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/BDW/events/broadwell_core.json V30, SHA-256 3ad842e2dc32fc65
    (&[61, 71], [0x83d0, 0x3f24, 0xff24, 0x01a2, 0xffc7, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/BDX/events/broadwellx_core.json V23, SHA-256 9ac4f9d2ef71fdc4
    (&[79], [0x83d0, 0x3f24, 0xff24, 0x01a2, 0xffc7, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/BDW-DE/events/broadwellde_core.json V12, SHA-256 871e8de83cb62163
    (&[86], [0x83d0, 0x3f24, 0xff24, 0x01a2, 0xffc7, 0x00c5, 0x500_05a3, 0x412e]),
    // intel/SKL/events/skylake_core.json V59, SHA-256 1c79986fe874bd86
    (&[78, 94, 142, 158, 165, 166], [0x83d0, 0x3f24, 0xff24, 0x01a2, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/SKX/events/skylakex_core.json V1.37, SHA-256 060364a7735822c8
    (&[85], [0x83d0, 0x3f24, 0xff24, 0x01a2, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/ICL/events/icelake_core.json V1.24, SHA-256 750cf1391b4733ec
    (&[125, 126], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/RKL/events/rocketlake_core.json V1.04, SHA-256 fdd55dc462c1c560
    (&[167], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/TGL/events/tigerlake_core.json V1.19, SHA-256 a2c0d4f8ed5d3842
    (&[140, 141], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/SPR/events/sapphirerapids_core.json V1.39, SHA-256 82dd46b1d795dc0a
    (&[143], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/EMR/events/emeraldrapids_core.json V1.24, SHA-256 085202edceb96e77
    (&[207], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/ICX/events/icelakex_core.json V1.30, SHA-256 e190aada074238e4
    (&[106, 108], [0x83d0, 0x0000, 0x0000, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/ADL/events/alderlake_goldencove_core.json V1.40, SHA-256 353f5675b95d37cb
    (&[151, 154, 183, 186, 191], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/MTL/events/meteorlake_redwoodcove_core.json V1.22, SHA-256 160aa096f652d6d2
    (&[170, 172, 181], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
    // intel/GNR/events/graniterapids_core.json V1.20, SHA-256 7772cba8bf622b05
    (&[173, 174], [0x83d0, 0x3f24, 0xff24, 0x0000, 0xffc7, 0x00c5, 0x600_06a3, 0x412e]),
];
