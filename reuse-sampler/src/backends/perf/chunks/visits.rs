//! How much of what touches a line the watched chunks see.
//!
//! A *visit* is a touch with the further touches of the line that come soon after. It is seen for certain if it touches a
//! chunk that is kept, and otherwise with the probability that one of its m chunks is among the e that were drawn of r.
//! The mean number u of drawn chunks that visits touch which are seen through them alone gives m:
//!
//! | e | seen | u = e m / (r seen) gives m = |
//! |---|---|---|
//! | 1 | m / r | (not known from these) |
//! | 2 | m (2 r - 1 - m) / (r (r - 1)) | 2 r - 1 - 2 (r - 1) / u |
//! | 3 | m (m^2 - 3 (r - 1) m + 3 r^2 - 6 r + 2) / (r (r - 1) (r - 2)) | the smaller root of m^2 - 3 (r - 1) m + 3 r^2 - 6 r + 2 = 3 (r - 1) (r - 2) / u |

/// Ages are binned by powers of four, up to this many.
const CLASSES: usize = 12;
/// The class from which on ages are thinned: from 32 accesses on.
const FIRST: usize = 3;
/// Visits that what is known of all instructions is worth: for the ratio of the two kinds, and for the number of chunks.
const PRIOR: [f64; 2] = [4.0, 8.0];

/// The class of an age of at least 1.
pub fn age_class(age: u64) -> usize {
    ((u64::BITS - age.max(1).leading_zeros()) as usize / 2).min(CLASSES - 1)
}

/// The least age of a class.
fn least_age(class: usize) -> u64 {
    if class == 0 { 1 } else { 1 << (2 * class - 1) }
}

/// The probability that a visit of `m` chunks of `r` touches one of `e` that were drawn.
fn seen(m: f64, e: usize, r: f64) -> f64 {
    let m = m.clamp(1.0, r);
    let seen = match e {
        1 => m / r,
        2 => m * (2.0 * r - 1.0 - m) / (r * (r - 1.0)),
        _ => m * (m * m - 3.0 * (r - 1.0) * m + 3.0 * r * r - 6.0 * r + 2.0) / (r * (r - 1.0) * (r - 2.0)),
    };
    if m > r - e as f64 { 1.0 } else { seen.min(1.0) }
}

/// How many chunks of `r` visits touch if those that are seen through `e` that were drawn touch `u` of these.
fn chunks(u: f64, e: usize, r: f64) -> f64 {
    let m = if e == 2 {
        2.0 * r - 1.0 - 2.0 * (r - 1.0) / u
    } else {
        let (b, c) = (3.0 * (r - 1.0), 3.0 * r * r - 6.0 * r + 2.0 - 3.0 * (r - 1.0) * (r - 2.0) / u);
        (b - (b * b - 4.0 * c).max(0.0).sqrt()) / 2.0
    };
    m.clamp(1.0, r)
}

/// Visits of one class of ages.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    kept: f64,           // that touched a chunk that is kept
    all: f64,            // that touched none, seen or not
    seen: [f64; 3],      // of those, seen while one, two and three chunks were drawn
    drawn: [f64; 3],     // chunks drawn that these touched
    undecided: [f64; 3], // chunks that they were drawn of, summed
}

impl Class {
    /// Visits that were seen.
    fn count(&self) -> f64 {
        self.kept + self.seen.iter().sum::<f64>()
    }

    fn and(mut self, other: &Self) -> Self {
        self.kept += other.kept;
        self.all += other.all;
        (0..3).for_each(|e| self.seen[e] += other.seen[e]);
        self
    }
}

/// Visits of all ages.
#[derive(Clone, Debug, Default)]
pub struct Visits {
    classes: [Class; CLASSES],
}

impl Visits {
    /// A visit at an age of `class`: how many of `drawn` random chunks it touched if no chunk that is kept, and for how
    /// many visits it stands then.
    pub fn learn(
        &mut self,
        class: usize,
        random: Option<u32>,
        (drawn, undecided): (usize, usize),
        stands_for: f64,
    ) {
        let class = &mut self.classes[class];
        let Some(touched) = random else {
            class.kept += 1.0;
            return;
        };
        class.all += stands_for;
        let e = drawn - 1;
        class.seen[e] += 1.0;
        class.drawn[e] += f64::from(touched);
        class.undecided[e] += undecided as f64;
    }

    /// How many visits one stands for that is seen through the random chunks alone.
    pub fn weight(&self, class: usize, others: &Self, drawn: usize, undecided: usize) -> f64 {
        let (own, other) = (&self.classes[class], &others.classes[class]);
        let prior = PRIOR[1] / (other.seen[1] + other.seen[2]).max(1.0);
        let (mut sum, mut total) = (0.0, 0.0);
        for e in [1, 2] {
            let add = |own: f64, other: f64| own + prior * other;
            let count = add(own.seen[e], other.seen[e]);
            if count > 0.0 {
                let touched = add(own.drawn[e], other.drawn[e]) / count;
                let undecided = add(own.undecided[e], other.undecided[e]) / count;
                sum += count * chunks(touched, e + 1, undecided);
                total += count;
            }
        }
        let m = if total > 0.0 { sum / total } else { 1.0 };
        1.0 / seen(m, drawn, undecided as f64)
    }

    /// An age of at least 1 in which only the visits that are seen have passed, as one in which all have.
    pub fn thinned(&self, age: u64, others: &Self, drawn: usize, undecided: usize) -> u64 {
        let mut thinned = least_age(FIRST).min(age) as f64;
        for class in FIRST..CLASSES {
            let from = least_age(class);
            if age <= from {
                break;
            }
            let to = if class + 1 < CLASSES { least_age(class + 1).min(age) } else { age };
            let (own, other) = (&self.classes[class], &others.classes[class]);
            // Where an instruction's lines are visited later, but never at such an age, those of others that are say nothing
            // of them.
            let later = if own.count() > 0.0 { &[] } else { &self.classes[class + 1..] };
            let later = later.iter().fold(Class::default(), Class::and);
            let near = later.count().min(PRIOR[0]) / later.count().max(1.0);
            let far = (PRIOR[0] - later.count()).max(0.0) / other.count().max(1.0);
            let kept = own.kept + near * later.kept + far * other.kept;
            let all = own.all + near * later.all + far * other.all;
            let weight = self.weight(class, others, drawn, undecided);
            let p = if kept + all > 0.0 { (kept + all / weight) / (kept + all) } else { 1.0 };
            thinned += p * (to - from) as f64;
        }
        (thinned.round() as u64).max(1)
    }
}
