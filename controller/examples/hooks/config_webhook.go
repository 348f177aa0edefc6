package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdmissionBinding runs the hook when the API server asks whether a write is allowed, or how to change its object.
type AdmissionBinding struct {
	NamedBinding
	Rules           []admissionregistrationv1.RuleWithOperations `json:"rules"`
	LabelSelector   *metav1.LabelSelector                        `json:"labelSelector"`
	Namespace       *LabelledNamespaces                          `json:"namespace"`
	FailurePolicy   *admissionregistrationv1.FailurePolicyType   `json:"failurePolicy"`
	SideEffects     *admissionregistrationv1.SideEffectClass     `json:"sideEffects"`
	TimeoutSeconds  *int32                                       `json:"timeoutSeconds"`
	MatchConditions []admissionregistrationv1.MatchCondition     `json:"matchConditions"`
}

// LabelledNamespaces selects namespaces by their labels.
type LabelledNamespaces struct {
	LabelSelector *metav1.LabelSelector `json:"labelSelector"`
}

// ConversionBinding runs the hook when the API server asks for another version of a custom resource.
type ConversionBinding struct {
	NamedBinding
	CRDName     string           `json:"crdName"`
	Conversions []ConversionRule `json:"conversions"`
}

// ConversionRule is a conversion that the hook knows. A version may be given with its group or without.
type ConversionRule struct {
	FromVersion string `json:"fromVersion"`
	ToVersion   string `json:"toVersion"`
}

// hasWebhooks reports whether the API server calls the hook.
func (c *Config) hasWebhooks() bool { return len(c.Validating)+len(c.Mutating)+len(c.Conversion) > 0 }

// checkWebhooks checks the bindings that the API server calls.
func (c *Config) checkWebhooks() error {
	for field, bindings := range map[string][]AdmissionBinding{"kubernetesValidating": c.Validating, "kubernetesMutating": c.Mutating} {
		for i := range bindings {
			if err := bindings[i].check(); err != nil {
				return fmt.Errorf("%s[%d].%w", field, i, err)
			}
		}
	}
	for i := range c.Conversion {
		if err := c.Conversion[i].check(); err != nil {
			return fmt.Errorf("kubernetesCustomResourceConversion[%d].%w", i, err)
		}
	}
	return nil
}

// defaultAdmissionTimeout is the timeoutSeconds of a binding that has none.
const defaultAdmissionTimeout = 10

// check checks the fields of a binding, and sets their defaults.
func (b *AdmissionBinding) check() error {
	switch {
	case b.Name == "":
		return errors.New("name is missing; give a domain such as policy.example.com")
	case len(b.Rules) == 0:
		return errors.New("rules is missing")
	}
	for i, rule := range b.Rules {
		for field, given := range map[string][]string{"apiGroups": rule.APIGroups, "apiVersions": rule.APIVersions, "resources": rule.Resources} {
			if len(given) == 0 {
				return fmt.Errorf("rules[%d].%s is missing", i, field)
			}
		}
		if len(rule.Operations) == 0 {
			return fmt.Errorf("rules[%d].operations is missing", i)
		}
		for _, operation := range rule.Operations {
			if !slices.Contains(allOperations, operation) {
				return fmt.Errorf("rules[%d].operations has %q; allowed are CREATE, UPDATE, DELETE, CONNECT and *", i, operation)
			}
		}
		if scope := rule.Scope; scope != nil && !slices.Contains(allScopes, *scope) {
			return fmt.Errorf("rules[%d].scope is %q; allowed are Cluster, Namespaced and *", i, *scope)
		}
	}
	if policy := b.FailurePolicy; policy != nil && *policy != admissionregistrationv1.Fail && *policy != admissionregistrationv1.Ignore {
		return fmt.Errorf("failurePolicy is %q; allowed are Fail and Ignore", *policy)
	}
	if b.SideEffects == nil {
		b.SideEffects = new(admissionregistrationv1.SideEffectClassNone)
	}
	if effects := *b.SideEffects; effects != admissionregistrationv1.SideEffectClassNone && effects != admissionregistrationv1.SideEffectClassNoneOnDryRun {
		return fmt.Errorf("sideEffects is %q; allowed are None and NoneOnDryRun", effects)
	}
	if b.TimeoutSeconds == nil {
		b.TimeoutSeconds = new(int32(defaultAdmissionTimeout))
	}
	if *b.TimeoutSeconds < 1 || *b.TimeoutSeconds > 30 {
		return fmt.Errorf("timeoutSeconds is %d; allowed is 1 to 30", *b.TimeoutSeconds)
	}
	selectors := map[string]*metav1.LabelSelector{"labelSelector": b.LabelSelector}
	if b.Namespace != nil {
		selectors["namespace.labelSelector"] = b.Namespace.LabelSelector
	}
	for field, selector := range selectors {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

var (
	allOperations = []admissionregistrationv1.OperationType{
		admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete, admissionregistrationv1.Connect, admissionregistrationv1.OperationAll,
	}
	allScopes = []admissionregistrationv1.ScopeType{
		admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope, admissionregistrationv1.AllScopes,
	}
)

// entry returns the binding as an entry of a configuration of webhooks.
func (b *AdmissionBinding) entry() admissionregistrationv1.MutatingWebhook {
	made := admissionregistrationv1.MutatingWebhook{
		Name: b.Name, Rules: b.Rules, ObjectSelector: b.LabelSelector, FailurePolicy: b.FailurePolicy,
		SideEffects: b.SideEffects, TimeoutSeconds: b.TimeoutSeconds, MatchConditions: b.MatchConditions,
		ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy), // A patch of a hook may not suit an object that it has changed already.
	}
	if b.Namespace != nil {
		made.NamespaceSelector = b.Namespace.LabelSelector
	}
	return made
}

// check checks the fields of a binding.
func (b *ConversionBinding) check() error {
	switch {
	case b.Name == "":
		return errors.New("name is missing")
	case !strings.Contains(b.CRDName, "."):
		return fmt.Errorf("crdName is %q; give the name of a resource definition, such as crontabs.stable.example.com", b.CRDName)
	case len(b.Conversions) == 0:
		return errors.New("conversions is missing")
	}
	for i, rule := range b.Conversions {
		if rule.FromVersion == "" || rule.ToVersion == "" {
			return fmt.Errorf("conversions[%d] lacks fromVersion or toVersion", i)
		}
	}
	return nil
}
