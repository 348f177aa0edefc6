// Package states checks an operator over the state space of its kind's spec, on a real API server. It
// reads the schema of the kind's CustomResourceDefinition, and makes values for each field: valid ones,
// edges, and invalid ones. A running operator then has to show that:
//
//   - A walk from one spec to another and back ends as a new object with the last spec does. The children
//     and the status are compared.
//   - A spec that the operator cannot fulfil leads to a condition that names the field, and the way back
//     to a good spec works. Or the API server refuses the spec, and the refusal names the field.
//   - The deletion of an object leaves nothing behind.
//   - There are no writes once the operator has settled.
//
// [Explore] does all of this for a [Subject]:
//
//	report, err := states.Explore(ctx, states.Subject{
//		Config:     config,     // of an administrator
//		Definition: definition, // the CustomResourceDefinition
//		Children:   []schema.GroupVersionResource{configMaps, deployments},
//	}, states.Options{})
//
// The operator runs elsewhere, in the same cluster, and watches all namespaces.
//
// # What is compared
//
// The reference for a spec is an object that was created with it and never changed. Two such objects
// differ, such as in the addresses of their pods. Before a difference is reported, a second reference is
// created, and fields in which the references differ are left out. Times, versions, generations and uids
// are always left out.
package states
