// Package contract defines the two ConfigMaps by which the parts of `bellerophon dev` talk to each
// other. The client writes Specs, and the controller writes Status. They are ConfigMaps, because
// most users of a cluster may not create a resource definition.
//
// The ConfigMap of Specs has the name of the application, and the ConfigMap of Status the same name
// with "-status". Everything that the controller makes has the ConfigMap of Specs as its owner, so
// that it goes with it.
package contract
