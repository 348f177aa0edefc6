package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// Step is a change of the cluster, or a number of objects that stay.
type Step struct {
	Action    string `json:"action"` // delete, change, or keep
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Note      string `json:"note,omitempty"`

	carry func(ctx context.Context) error
}

// The actions of steps.
const (
	Delete = "delete"
	Change = "change"
	Keep   = "keep"
)

// String returns the step as text, without its action.
func (s Step) String() string {
	text := s.Kind
	if s.Name != "" {
		text += " " + strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
	}
	if s.Note != "" {
		text += ": " + s.Note
	}
	return text
}

// Plan is what an uninstallation does, in its order.
type Plan struct {
	Steps []Step
}

// Look looks at a cluster, and returns what an uninstallation would do. It changes nothing. It fails if the cluster is in
// a state in which an object would never go.
func Look(ctx context.Context, config *rest.Config, options Options) (*Plan, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	c, err := newCluster(config, options)
	if err != nil {
		return nil, err
	}
	release, err := c.release(ctx)
	if err != nil {
		return nil, err
	}
	kinds, err := c.kinds(ctx)
	if err != nil {
		return nil, err
	}
	others, err := c.others(ctx)
	if err != nil {
		return nil, err
	}
	if options.Everything && len(others) > 0 {
		return nil, fmt.Errorf("the operator in %s works on the same objects, which --everything would delete; uninstall it first, or leave --everything out", strings.Join(others, " and in "))
	}
	p := &Plan{}
	if options.Everything && !options.Force {
		if err := c.checkOperator(release, kinds); err != nil {
			return nil, err
		}
		p.deleteObjects(c, kinds)
	}
	p.stop(c, release)
	if len(others) == 0 {
		p.release(c, kinds)
	}
	if options.Everything && options.Force {
		p.deleteObjects(c, kinds)
	}
	p.definitions(c, kinds, others)
	p.rest(c, release)
	if len(p.Steps) > 0 {
		p.Steps = append(p.Steps, Step{Action: Keep, Kind: "Namespace", Name: options.Namespace})
	}
	return p, nil
}

// Run carries the plan out, and calls done after each step. It stops at the first failure; it may be called again with a
// new plan, which has what is left.
func (p *Plan) Run(ctx context.Context, done func(Step)) error {
	for _, step := range p.Steps {
		if step.carry != nil {
			if err := step.carry(ctx); err != nil {
				return err
			}
		}
		done(step)
	}
	return nil
}

// Changes reports whether the plan changes anything.
func (p *Plan) Changes() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != Keep })
}

// add adds the deletion of an object, which waits until the object is gone.
func (p *Plan) add(c *cluster, found item, note string) {
	p.Steps = append(p.Steps, Step{Action: Delete, Kind: found.GetKind(), Namespace: found.GetNamespace(), Name: found.GetName(), Note: note,
		carry: func(ctx context.Context) error { return c.remove(ctx, found) }})
}

// stop adds the end of the operator and of its webhooks. The operator goes first: it would create a configuration of
// webhooks again.
func (p *Plan) stop(c *cluster, release []item) {
	for _, kind := range []string{"Deployment", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		for _, found := range release {
			if found.GetKind() == kind {
				p.add(c, found, "")
			}
		}
	}
}

// rest adds all else of the release.
func (p *Plan) rest(c *cluster, release []item) {
	for _, found := range release {
		switch found.GetKind() {
		case "Deployment", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "CustomResourceDefinition":
		default:
			p.add(c, found, "")
		}
	}
}

// deleteObjects adds the deletion of all objects of the kinds. All are deleted before the first is waited for, as each
// may take a last backup.
func (p *Plan) deleteObjects(c *cluster, kinds []kind) {
	for _, of := range kinds {
		if len(of.objects) == 0 {
			continue
		}
		p.Steps = append(p.Steps, Step{Action: Delete, Kind: of.definition.GetName(), Note: of.count() + ", and what they own",
			carry: func(ctx context.Context) error { return c.removeAll(ctx, of) }})
	}
}

// release adds what lets objects go without an operator: no conversion by a webhook that is gone, and no finalizer that
// only the operator removes.
func (p *Plan) release(c *cluster, kinds []kind) {
	for _, of := range kinds {
		if c.converts(of) {
			p.Steps = append(p.Steps, Step{Action: Change, Kind: of.definition.GetKind(), Name: of.definition.GetName(),
				Note:  "only its stored version is served, without conversion",
				carry: func(ctx context.Context) error { return c.endConversion(ctx, of) }})
		}
		if c.options.Everything && !c.options.Force {
			continue // The operator has let them go.
		}
		for i := range of.objects {
			object := of.objects[i]
			if ours := finalizersOf(&object); len(ours) > 0 {
				p.Steps = append(p.Steps, Step{Action: Change, Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
					Note:  "without " + strings.Join(ours, " and ") + ": no operator would remove that",
					carry: func(ctx context.Context) error { return c.letGo(ctx, of, object) }})
			}
		}
	}
}

// definitions adds the deletion of the definitions, or says what stays.
func (p *Plan) definitions(c *cluster, kinds []kind, others []string) {
	for _, of := range kinds {
		switch {
		case c.options.Everything:
			p.add(c, item{of.definition, definitionResource}, "")
		case len(others) > 0:
			p.Steps = append(p.Steps, Step{Action: Keep, Kind: of.definition.GetName(), Note: "the operator in " + strings.Join(others, " and in ") + " works on them"})
		default:
			p.Steps = append(p.Steps, Step{Action: Keep, Kind: of.definition.GetName(), Note: of.count() + ", and what they own; --everything deletes them"})
		}
	}
}

// count returns how many objects a kind has, as text.
func (k kind) count() string {
	if len(k.objects) == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", len(k.objects))
}

// finalizersOf returns the finalizers of an object that only the operator removes.
func finalizersOf(object *unstructured.Unstructured) (ours []string) {
	for _, name := range object.GetFinalizers() {
		if slices.Contains(finalizers, name) {
			ours = append(ours, name)
		}
	}
	return ours
}
