// Package server runs the Bellerophon software: a small, replicated key-value store. Package store is its state,
// package member replicates it, and package api serves it over HTTP. This package opens the volume and the port of
// one member, and ends them.
package server
