package localcluster

import "encoding/json"

// auditPolicy is the name of the file with the API server's audit policy.
const auditPolicy = "audit-policy.yaml"

// auditPolicyOf returns a policy that logs the requests of some users, with or without their content.
func auditPolicyOf(users []string, content bool) []byte {
	type rule struct {
		Level             string   `json:"level"`
		Users             []string `json:"users,omitempty"`
		OmitManagedFields bool     `json:"omitManagedFields,omitempty"`
	}
	logged := rule{Level: "Metadata", Users: users}
	if content {
		logged.Level, logged.OmitManagedFields = "RequestResponse", true
	}
	policy, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Rules      []rule `json:"rules"`
	}{"audit.k8s.io/v1", "Policy", []rule{logged, {Level: "None"}}})
	if err != nil {
		panic(err) // Strings can always be encoded.
	}
	return policy // JSON is YAML.
}
