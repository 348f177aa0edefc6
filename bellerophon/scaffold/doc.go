// Package scaffold writes a small project with a first controller: a custom resource, its reconciler, tests, a
// program and a Helm chart. The project is the user's from then on: nothing here reads it again.
//
// The deep copies, the resource definition and the role of the templates are what controller-gen makes of the
// templates' types and markers. A test runs controller-gen on a project and finds no difference.
package scaffold
