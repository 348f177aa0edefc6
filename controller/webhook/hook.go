package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The range and the default of [Timeout].
const (
	DefaultTimeout = 5 * time.Second
	maxTimeout     = 30 * time.Second // the API server's own bound
)

// Option configures a webhook of a kind: of [Validate] or [Default].
type Option func(*hook)

// OfKind names the kind of objects of type *unstructured.Unstructured, or of a Go type with several kinds.
func OfKind(kind schema.GroupVersionKind) Option { return func(h *hook) { h.named = kind } }

// Subresource makes the webhook one of a subresource of the kind of parent, instead of one of the kind
// itself. The type of the function's objects is the one that the API server sends: the parent's for
// "status", "ephemeralcontainers" and "resize", *autoscalingv1.Scale for "scale", and *policyv1.Eviction for
// "eviction". Options of a connection, as of "exec", are no objects of Kubernetes: take
// *unstructured.Unstructured, [OfKind] and [On] with Connect for them.
func Subresource(parent streams.Object, name string) Option {
	return func(h *hook) { h.parent, h.subresource, h.hasSubresource = parent, name, true }
}

// On sets the operations that the webhook is called for. The default is Create and Update.
func On(operations ...admissionv1.Operation) Option {
	return func(h *hook) { h.operations = operations }
}

// FailurePolicy sets what happens to a write while the webhook fails or cannot be reached. The default is
// Fail: the write is refused. With Ignore it is done unchecked.
func FailurePolicy(policy admissionregistrationv1.FailurePolicyType) Option {
	return func(h *hook) { h.failurePolicy = policy }
}

// Timeout bounds one call: 1 s to 30 s, in whole seconds; default [DefaultTimeout]. A call that takes
// longer has failed.
func Timeout(timeout time.Duration) Option { return func(h *hook) { h.timeout = timeout } }

// NamespaceSelector selects the namespaces whose objects are handled, by their labels.
func NamespaceSelector(selector metav1.LabelSelector) Option {
	return func(h *hook) { h.namespaces = selector }
}

// ObjectSelector selects the objects that are handled, by their labels. The users of a cluster can change
// labels, so it is no protection.
func ObjectSelector(selector metav1.LabelSelector) Option {
	return func(h *hook) { h.objects = selector }
}

// MatchCondition adds a CEL expression that must be true for a request to be handled, such as
// "!('system:nodes' in request.userInfo.groups)". The API server evaluates it.
func MatchCondition(name, expression string) Option {
	return func(h *hook) {
		h.conditions = append(h.conditions, admissionregistrationv1.MatchCondition{Name: name, Expression: expression})
	}
}

// AllNamespaces includes the namespaces that a webhook of a kind of Kubernetes leaves out: the namespace of
// the server, kube-system and kube-node-lease. While the webhook fails, nothing there can be repaired
// through the kind, unless [FailurePolicy] is Ignore.
func AllNamespaces() Option { return func(h *hook) { h.allNamespaces = true } }

// hook is an admission webhook of a kind, or one whose entry in a configuration is given.
type hook struct {
	mutating bool
	given    *admissionregistrationv1.MutatingWebhook // by ReviewValidating or ReviewMutating; nil for one of a kind
	kind     schema.GroupVersionKind                  // of the objects in its requests
	of       sources.Kind                             // whose resource or subresource is written; the same without a subresource
	handle   func(ctx context.Context, review *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

	named          schema.GroupVersionKind // by OfKind
	parent         streams.Object          // by Subresource
	subresource    string
	hasSubresource bool

	operations    []admissionv1.Operation
	failurePolicy admissionregistrationv1.FailurePolicyType
	timeout       time.Duration
	namespaces    metav1.LabelSelector
	objects       metav1.LabelSelector
	conditions    []admissionregistrationv1.MatchCondition
	allNamespaces bool
}

// newHook creates a webhook of a kind, and returns an error for an option that is out of its range.
func newHook(s *Server, object streams.Object, mutating bool, options []Option) (*hook, error) {
	made := &hook{
		mutating:      mutating,
		operations:    []admissionv1.Operation{admissionv1.Create, admissionv1.Update},
		failurePolicy: admissionregistrationv1.Fail,
		timeout:       DefaultTimeout,
	}
	for _, option := range options {
		option(made)
	}
	if err := made.find(s.scheme, object); err != nil {
		return nil, err
	}
	return made, made.validate()
}

// find sets the kinds of a webhook whose function gets objects of a type.
func (h *hook) find(scheme *runtime.Scheme, object streams.Object) (err error) {
	if !h.hasSubresource {
		var named []sources.KindOption
		if !h.named.Empty() {
			named = append(named, sources.OfKind(h.named))
		}
		h.of, err = wholeKindOf(scheme, object, named...)
		h.kind = h.of.GroupVersionKind
		return err
	}
	if h.of, err = wholeKindOf(scheme, h.parent); err != nil {
		return fmt.Errorf("Subresource: %w", err)
	}
	if h.kind = h.named; !h.named.Empty() {
		if h.named.Version == "" || h.named.Kind == "" {
			return fmt.Errorf("OfKind has %v; give a version and a kind", h.named)
		}
		return nil
	}
	kinds, _, err := scheme.ObjectKinds(object) // It needs no list, which the types of subresources lack.
	if err != nil {
		return fmt.Errorf("finding the kind of %T; add its package to the scheme, or name its kind with OfKind: %w", object, err)
	}
	h.kind = kinds[0]
	return nil
}

// wholeKindOf returns the kind of a type that holds whole objects.
func wholeKindOf(scheme *runtime.Scheme, object streams.Object, options ...sources.KindOption) (sources.Kind, error) {
	kind, err := sources.KindOf(scheme, object, options...)
	if err == nil && kind.HasPart() {
		return kind, fmt.Errorf("%v holds only a part of a %v; take the API type", kind.Type(), kind.GroupKind())
	}
	return kind, err
}

// known are the operations of admission.
var known = []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect}

func (h *hook) validate() error {
	if len(h.operations) == 0 {
		return errors.New("On names no operation; allowed are CREATE, UPDATE, DELETE and CONNECT")
	}
	for i, operation := range h.operations {
		switch {
		case !slices.Contains(known, operation):
			return fmt.Errorf("On has %q; allowed are CREATE, UPDATE, DELETE and CONNECT", operation)
		case slices.Contains(h.operations[:i], operation):
			return fmt.Errorf("On has %s twice; name it once", operation)
		case h.mutating && operation != admissionv1.Create && operation != admissionv1.Update:
			return fmt.Errorf("On has %s; defaults are set at CREATE and UPDATE", operation)
		case operation == admissionv1.Connect && !h.hasSubresource:
			return errors.New("On has CONNECT, which only subresources such as exec have; name one with Subresource")
		}
	}
	if wrong := validation.NameIsDNSLabel(h.subresource, false); h.hasSubresource && len(wrong) > 0 {
		return fmt.Errorf("Subresource is %q; give a name such as status: %s", h.subresource, strings.Join(wrong, "; "))
	}
	if h.failurePolicy != admissionregistrationv1.Fail && h.failurePolicy != admissionregistrationv1.Ignore {
		return fmt.Errorf("FailurePolicy is %q; allowed are Fail and Ignore", h.failurePolicy)
	}
	if h.timeout < time.Second || h.timeout > maxTimeout || h.timeout%time.Second != 0 {
		return fmt.Errorf("Timeout is %v; allowed is 1s to 30s, in whole seconds", h.timeout)
	}
	for name, selector := range map[string]*metav1.LabelSelector{"NamespaceSelector": &h.namespaces, "ObjectSelector": &h.objects} {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			return fmt.Errorf("%s is not a selector: %w", name, err)
		}
	}
	for _, condition := range h.conditions {
		if condition.Name == "" || strings.TrimSpace(condition.Expression) == "" {
			return errors.New("MatchCondition has no name or no expression; give both")
		}
	}
	switch h.of.Group {
	case "admissionregistration.k8s.io":
		return errors.New("the API server calls no webhooks for this group; use a ValidatingAdmissionPolicy")
	case "apiextensions.k8s.io":
		if h.failurePolicy == admissionregistrationv1.Fail {
			return errors.New("the server itself writes resource definitions, and would lock itself out; give FailurePolicy(Ignore)")
		}
	}
	return nil
}

// group returns the group of the kind, or "core".
func (h *hook) group() string {
	if h.of.Group == "" {
		return "core"
	}
	return h.of.Group
}

func (h *hook) verb() string {
	if h.mutating {
		return "default"
	}
	return "validate"
}

// parts returns the kind, and the subresource if there is one. Unlike the plural, they are known from the start.
func (h *hook) parts() []string {
	if h.hasSubresource {
		return []string{strings.ToLower(h.of.Kind), h.subresource}
	}
	return []string{strings.ToLower(h.of.Kind)}
}

// name returns the name of the webhook in its configuration, which needs three parts or more.
func (h *hook) name() string {
	return strings.Join(slices.Concat([]string{h.verb(), h.of.Version}, h.parts(), []string{h.group()}), ".")
}

func (h *hook) path() string {
	if h.given != nil {
		return "/review/" + h.verb() + "/" + h.given.Name
	}
	return strings.Join(slices.Concat([]string{"", h.verb(), h.group(), h.of.Version}, h.parts()), "/")
}

// resource returns what is written, as rules of a configuration name it.
func (h *hook) resource() string {
	if h.hasSubresource {
		return h.of.Resource() + "/" + h.subresource
	}
	return h.of.Resource()
}

// isOfKubernetes reports whether a kind may be one that Kubernetes itself needs to run pods.
func (h *hook) isOfKubernetes() bool {
	if h.given == nil {
		return isGroupOfKubernetes(h.of.Group)
	}
	return slices.ContainsFunc(h.given.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return slices.ContainsFunc(rule.APIGroups, isGroupOfKubernetes)
	})
}

// isGroupOfKubernetes reports whether a group, or the group "*", has kinds of Kubernetes itself.
func isGroupOfKubernetes(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// namespaceSelector returns the selector of namespaces, without the ones that must not be locked out.
func (h *hook) namespaceSelector(own string) *metav1.LabelSelector {
	selector := h.namespaces.DeepCopy()
	if h.allNamespaces || !h.isOfKubernetes() {
		return selector
	}
	without := []string{metav1.NamespaceSystem, corev1.NamespaceNodeLease}
	if own != "" && !slices.Contains(without, own) {
		without = append(without, own)
	}
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: without,
	})
	return selector
}
