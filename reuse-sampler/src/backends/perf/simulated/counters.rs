//! Which counters count which events, by the manufacturers' lists.

// Written by .ci/event-tables from .ci/event-tables.csv: change that.

use super::limits::Counters;

pub const COUNTERS: &[Counters] = &[
    Counters { name: "Intel Nehalem-EX", shared: [0x000f, 0x000f, 0x000f], alone: [0x000f, 0x000f, 0x000f] },
    Counters { name: "Intel Nehalem", shared: [0x000f, 0x000f, 0x000f], alone: [0x000f, 0x000f, 0x000f] },
    Counters { name: "Intel Westmere-EX", shared: [0x000f, 0x000f, 0x000f], alone: [0x000f, 0x000f, 0x000f] },
    Counters { name: "Intel Westmere", shared: [0x000f, 0x000f, 0x000f], alone: [0x000f, 0x000f, 0x000f] },
    Counters { name: "Intel Westmere-EP", shared: [0x000f, 0x000f, 0x000f], alone: [0x000f, 0x000f, 0x000f] },
    Counters { name: "Intel Silvermont", shared: [0x0003, 0x0003, 0x0003], alone: [0x0003, 0x0003, 0x0003] },
    Counters { name: "Intel Goldmont", shared: [0x000f, 0x000f, 0x000f], alone: [0x000f, 0x000f, 0x000f] },
    Counters {
        name: "Intel Sandy Bridge",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Sandy Bridge-EP",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters { name: "Intel Ivy Bridge", shared: [0x000f, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters {
        name: "Intel Ivy Bridge-EP",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters { name: "Intel Haswell", shared: [0x000f, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters { name: "Intel Haswell-EP", shared: [0x000f, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters { name: "Intel Broadwell", shared: [0x000f, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters {
        name: "Intel Broadwell-EP",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Broadwell-DE",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Skylake to Comet Lake",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Knights Landing",
        shared: [0x0003, 0x0003, 0x0003],
        alone: [0x0003, 0x0003, 0x0003],
    },
    Counters {
        name: "Intel Skylake-SP or Cascade Lake",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Goldmont Plus",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x000f, 0x000f, 0x000f],
    },
    Counters { name: "Intel Ice Lake", shared: [0x00ff, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters { name: "Intel Rocket Lake", shared: [0x00ff, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters { name: "Intel Snow Ridge", shared: [0x000f, 0x000f, 0x000f], alone: [0x000f, 0x000f, 0x000f] },
    Counters { name: "Intel Tiger Lake", shared: [0x00ff, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters {
        name: "Intel Sapphire Rapids",
        shared: [0x00ff, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Emerald Rapids",
        shared: [0x00ff, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters { name: "Intel Ice Lake-SP", shared: [0x00ff, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters {
        name: "Intel Elkhart Lake",
        shared: [0x000f, 0x000f, 0x000f],
        alone: [0x000f, 0x000f, 0x000f],
    },
    Counters { name: "Intel Alder Lake", shared: [0x00ff, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters {
        name: "Intel Alder Lake-N",
        shared: [0x003f, 0x003f, 0x003f],
        alone: [0x003f, 0x003f, 0x003f],
    },
    Counters { name: "Intel Meteor Lake", shared: [0x00ff, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
    Counters {
        name: "Intel Granite Rapids",
        shared: [0x00ff, 0x000f, 0x000f],
        alone: [0x00ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Sierra Forest",
        shared: [0x00ff, 0x00ff, 0x00ff],
        alone: [0x00ff, 0x00ff, 0x00ff],
    },
    Counters { name: "Intel Grand Ridge", shared: [0x00ff, 0x00ff, 0x00ff], alone: [0x00ff, 0x00ff, 0x00ff] },
    Counters { name: "Intel Lunar Lake", shared: [0x03ff, 0x000f, 0x000f], alone: [0x03ff, 0x000f, 0x000f] },
    Counters { name: "Intel Arrow Lake", shared: [0x03ff, 0x000f, 0x000f], alone: [0x03ff, 0x000f, 0x000f] },
    Counters {
        name: "Intel Panther Lake",
        shared: [0x03ff, 0x000f, 0x000f],
        alone: [0x03ff, 0x000f, 0x000f],
    },
    Counters {
        name: "Intel Clearwater Forest",
        shared: [0x00ff, 0x00ff, 0x00ff],
        alone: [0x00ff, 0x00ff, 0x00ff],
    },
    Counters { name: "Intel Nova Lake", shared: [0x00ff, 0x000f, 0x000f], alone: [0x00ff, 0x000f, 0x000f] },
];
