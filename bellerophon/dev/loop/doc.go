// Package loop is the controller of `bellerophon dev`. One reconciler brings an application to the
// state RunCommandRunning, whatever has changed: the Specs, the files, the Deployment, a pod, or a
// command that has ended.
//
// Each call does all that the state allows, in this order:
//
//  1. children.go applies the Deployment, the Service and the volume claims; manifests.go applies
//     the objects that the devfile names
//  2. pod.go chooses the pod
//  3. sync.go syncs the project's files to the pod
//  4. commands.go starts the build and the run command, in the slots of slots.go
//  5. report.go writes the Status
//
// A call never waits for a command. A command that ends is an event, as a changed file is. The
// state of a container is read from the container, so that a new process goes on where the last one
// stopped.
package loop
