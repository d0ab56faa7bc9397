"""What single strategies are made of besides the loop: the prompts, the plan formats and the decisions of each."""
