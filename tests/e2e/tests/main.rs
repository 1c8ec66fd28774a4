//! End to end. Modules are named after a rule, a case of the collection of others' faults, or a story.

mod b03_duplicates;
mod b14_order;
mod b15_one_socket;
mod b16_refused_for_good;
mod b17_frame_limit;
mod crashes;
mod demo_page;
mod hostile_frames;
mod identity;
mod j02_deadline;
mod j03_cuts;
mod j04_fence;
mod j05_identity_of_a_patch;
mod j09_documents;
mod restart;
mod saved_or_not;
mod saves;
mod spine;
mod storage;
