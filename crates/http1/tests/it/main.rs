//! Tests of `http1` through its public face.

mod response;
