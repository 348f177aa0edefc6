// Package hero implements the operator of the kind Bellerophon. It keeps the pods, Services and settings of a cluster of
// the Bellerophon software in the desired state. It also does what only the software's makers know. It makes one cluster,
// lets members join and leave, and restarts them without a loss of the majority.
//
// Each call of the reconciler looks at the objects and at the members, and makes the first step that is missing. It keeps
// no state between calls, so the operator may stop between any two steps.
package hero
