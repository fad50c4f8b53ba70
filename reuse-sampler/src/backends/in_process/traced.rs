//! Vectors and slices that say how they are used.

use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::slice;

use super::Recorder;
use crate::AccessKind;

/// A vector, boxed or borrowed slice whose accesses are recorded.
///
/// Shared indexing, [`get`](Self::get) and iterating load an element; exclusive indexing, [`get_mut`](Self::get_mut)
/// and iterating mutably store one, as nothing shows whether it is read first: where it is, say
/// [`update`](Self::update), which loads and stores. What lies outside is never an access. The data must not move
/// while they are traced, as a growing vector's do: what is recorded then are its elements' new addresses, and not the
/// copying.
///
/// ```
/// use reuse_sampler::ReusePlan;
/// use reuse_sampler::in_process::{Profiler, ProfilerOptions, Traced};
///
/// let profiler = Profiler::new(ProfilerOptions::new(ReusePlan::Every))?;
/// let recorder = profiler.recorder();
/// let values = [3, 1, 2];
/// let mut sorted = Traced::new(vec![0; 3], &recorder);
/// for (i, value) in Traced::new(&values[..], &recorder).iter().enumerate() {
///     sorted[i] = *value; // a load each from the one, a store each to the other
/// }
/// sorted.swap(0, 1); // two loads, two stores
/// assert_eq!(sorted.into_inner(), [1, 3, 2]);
/// drop(recorder);
/// assert_eq!(profiler.take_profile().accesses(), 3 + 3 + 4);
/// # Ok::<(), reuse_sampler::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Traced<'r, C> {
    data: C,
    recorder: &'r Recorder,
}

impl<'r, C> Traced<'r, C> {
    /// Traces `data`, whose accesses are those of the recorder's thread.
    pub const fn new(data: C, recorder: &'r Recorder) -> Self {
        Self { data, recorder }
    }

    /// The data, without recording what is done with them.
    pub const fn untraced(&self) -> &C {
        &self.data
    }

    /// The same, to be changed.
    pub const fn untraced_mut(&mut self) -> &mut C {
        &mut self.data
    }

    /// The data, traced no longer.
    pub fn into_inner(self) -> C {
        self.data
    }
}

/// Records an access to all of `element`.
#[inline]
fn touch<T>(recorder: &Recorder, element: *const T, kind: AccessKind) {
    recorder.record(element.addr() as u64, u32::try_from(size_of::<T>()).unwrap_or(u32::MAX), kind);
}

impl<'r, T, C: Deref<Target = [T]>> Traced<'r, C> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Loads an element, if there is one at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.data.get(index).inspect(|element| touch(self.recorder, *element, AccessKind::Load))
    }

    /// Loads each element when its turn comes.
    pub fn iter(&self) -> TracedIter<'_, 'r, T> {
        TracedIter { elements: self.data.iter(), recorder: self.recorder }
    }
}

impl<T, C: DerefMut<Target = [T]>> Traced<'_, C> {
    /// Stores to an element, if there is one at `index`.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.data
            .get_mut(index)
            .inspect(|element| touch(self.recorder, &raw const **element, AccessKind::Store))
    }

    /// Loads an element, changes it and stores it.
    ///
    /// # Panics
    /// If there is no element at `index`, as indexing does.
    #[inline]
    pub fn update<R>(&mut self, index: usize, change: impl FnOnce(&mut T) -> R) -> R {
        let element = &mut self.data[index];
        touch(self.recorder, element, AccessKind::Load);
        touch(self.recorder, element, AccessKind::Store);
        change(element)
    }

    /// Loads two elements and stores each where the other was.
    ///
    /// # Panics
    /// If there is no element at `a` or `b`, as indexing does.
    #[inline]
    pub fn swap(&mut self, a: usize, b: usize) {
        for kind in [AccessKind::Load, AccessKind::Store] {
            touch(self.recorder, &raw const self.data[a], kind);
            touch(self.recorder, &raw const self.data[b], kind);
        }
        self.data.swap(a, b);
    }

    /// Stores to each element when its turn comes.
    pub fn iter_mut<'a>(&'a mut self) -> impl Iterator<Item = &'a mut T>
    where
        T: 'a,
    {
        let recorder = self.recorder;
        self.data.iter_mut().inspect(move |element| touch(recorder, &raw const **element, AccessKind::Store))
    }
}

impl<T> Traced<'_, Vec<T>> {
    /// Stores an element behind the others.
    pub fn push(&mut self, element: T) {
        self.data.push(element);
        if let Some(element) = self.data.last() {
            touch(self.recorder, element, AccessKind::Store);
        }
    }

    /// Loads the last element and takes it away.
    pub fn pop(&mut self) -> Option<T> {
        if let Some(element) = self.data.last() {
            touch(self.recorder, element, AccessKind::Load);
        }
        self.data.pop()
    }
}

impl<T, C: Deref<Target = [T]>> Index<usize> for Traced<'_, C> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        let element = &self.data[index];
        touch(self.recorder, element, AccessKind::Load);
        element
    }
}

impl<T, C: DerefMut<Target = [T]>> IndexMut<usize> for Traced<'_, C> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        let element = &mut self.data[index];
        touch(self.recorder, element, AccessKind::Store);
        element
    }
}

impl<'a, 'r, T: 'a, C: Deref<Target = [T]>> IntoIterator for &'a Traced<'r, C> {
    type Item = &'a T;
    type IntoIter = TracedIter<'a, 'r, T>;

    fn into_iter(self) -> TracedIter<'a, 'r, T> {
        self.iter()
    }
}

/// Loads one element after the other.
#[derive(Clone, Debug)]
pub struct TracedIter<'a, 'r, T> {
    elements: slice::Iter<'a, T>,
    recorder: &'r Recorder,
}

impl<'a, T> Iterator for TracedIter<'a, '_, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        self.elements.next().inspect(|element| touch(self.recorder, *element, AccessKind::Load))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.elements.size_hint()
    }
}

impl<T> DoubleEndedIterator for TracedIter<'_, '_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.elements.next_back().inspect(|element| touch(self.recorder, *element, AccessKind::Load))
    }
}

impl<T> ExactSizeIterator for TracedIter<'_, '_, T> {}
